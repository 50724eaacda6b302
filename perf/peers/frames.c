/* Both ends of the relay's comparison with its peers: callers that send 640-byte frames, and a backend that answers each with one.
 *
 *   frames serve CHECKPOINT_EVERY
 *       answers upgrades and frames; prints its port. Where the upgrade offers the extension of asides, it says a checkpoint of
 *       after the upgrade (3.4 KB, as of a new session) and after every so many frames (6 KiB, as after a turn), as a runtime does,
 *       so that the relay keeps and forgets messages.
 *   frames load PORT CONNECTIONS MILLISECONDS PERIOD_US
 *       opens the connections, 32 at once, then sends: PERIOD_US 0: one frame outstanding on each, as fast as it goes; else a
 *       frame every PERIOD_US on each, spread over the period. Prints one JSON object.
 *   frames hold PORT CONNECTIONS
 *       opens the connections, prints a line, and holds them until its standard input ends.
 *
 * Pings, which a relay sends to see who lives, are answered. Frames have a zero mask. The accept value is the one of the fixed key, since every peer passes the key on. Linux, one thread.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAYLOAD = 640, CLIENT_FRAME = 4 + 4 + PAYLOAD, SERVER_FRAME = 4 + PAYLOAD, PING_FRAME = 2 + 4, FRESH_STATE = 3400, STATE = 6144, AT_ONCE = 32, EVENTS = 512 };

static const char REQUEST[] =
    "GET /v1/realtime HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
static const char ANSWER[] =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

struct connection {
    int fd;
    int open;              /* upgraded */
    int has_asides;
    int is_ping;           /* the frame that is coming in */
    size_t in_bytes;       /* serve: of it still to come; load: of answers, not whole ones yet */
    unsigned long frames;  /* heard */
    char head[4096];
    size_t head_bytes;
    long long sent_ns;
};

static unsigned char client_frame[CLIENT_FRAME], server_frame[SERVER_FRAME];

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "frames: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Small writes to a socket that is read: a full buffer means that the other end stands still, which no bench wants to hide. */
static void say(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t wrote = write(fd, at, size);
        if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (wrote < 0) { if (errno == EPIPE || errno == ECONNRESET) return; die("write"); }
        at += wrote;
        size -= (size_t)wrote;
    }
}

static size_t varint(unsigned char *to, unsigned long value) {
    size_t n = 0;
    do { to[n] = (unsigned char)(value & 0x7f) | (value > 0x7f ? 0x80 : 0); value >>= 7; n++; } while (value);
    return n;
}

/* RuntimeAside{checkpoint{state, applied, replay_from}} in a whole binary frame with RSV3. */
static void say_checkpoint(struct connection *c) {
    static unsigned char inner[STATE + 64], frame[STATE + 128];
    size_t n = 0, m = 0, at;
    unsigned int chance = 1; /* four bits of it a byte: a session's state packs better than that */
    size_t size = c->frames ? STATE : FRESH_STATE;
    inner[n++] = 0x0a; n += varint(inner + n, size);
    for (size_t i = 0; i < size; i++) { chance = chance * 1664525u + 1013904223u; inner[n++] = (unsigned char)('a' + (chance >> 28)); }
    inner[n++] = 0x10; n += varint(inner + n, c->frames);
    inner[n++] = 0x18; n += varint(inner + n, c->frames + 1);
    unsigned char prefix[16];
    prefix[m++] = 0x0a; m += varint(prefix + m, n);
    at = 0;
    frame[at++] = 0x92; frame[at++] = 126; frame[at++] = (unsigned char)((n + m) >> 8); frame[at++] = (unsigned char)(n + m);
    memcpy(frame + at, prefix, m); at += m;
    memcpy(frame + at, inner, n); at += n;
    say(c->fd, frame, at);
}

static int listener(int *port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 4096) || getsockname(fd, (struct sockaddr *)&a, &size)) die("listen");
    *port = ntohs(a.sin_port);
    return fd;
}

static void forget(int epoll, struct connection *c) {
    epoll_ctl(epoll, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    free(c);
}

static void serve(unsigned long checkpoint_every) {
    int port, epoll = epoll_create1(0), fd = listener(&port);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
    static char data[256 * 1024];
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    event.data.ptr = &epoll;
    epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event); /* standard input: its end is ours */
    printf("%d\n", port);
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if ((void *)c == (void *)&epoll) return;
            if (!c) {
                for (int made; (made = accept4(fd, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
                    int on = 1;
                    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                    c = calloc(1, sizeof *c);
                    c->fd = made;
                    event.events = EPOLLIN;
                    event.data.ptr = c;
                    epoll_ctl(epoll, EPOLL_CTL_ADD, made, &event);
                }
                continue;
            }
            ssize_t size = read(c->fd, data, sizeof data);
            if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (size <= 0) { forget(epoll, c); continue; }
            size_t frame_bytes = (size_t)size;
            if (!c->open) {
                size_t room = sizeof c->head - 1 - c->head_bytes, take = frame_bytes < room ? frame_bytes : room;
                memcpy(c->head + c->head_bytes, data, take);
                c->head_bytes += take;
                c->head[c->head_bytes] = 0;
                char *end = strstr(c->head, "\r\n\r\n");
                if (!end) { if (take < frame_bytes) forget(epoll, c); continue; }
                c->open = 1;
                c->has_asides = strcasestr(c->head, "switchboard-aside") != NULL;
                say(c->fd, ANSWER, sizeof ANSWER - 1);
                if (c->has_asides) say(c->fd, "Sec-WebSocket-Extensions: switchboard-aside\r\n\r\n", 47);
                else say(c->fd, "\r\n", 2);
                if (c->has_asides && checkpoint_every) say_checkpoint(c);
                frame_bytes = c->head_bytes - (size_t)(end + 4 - c->head);
            }
            for (const char *at = data + size - frame_bytes, *end = data + size; at < end;) {
                if (!c->in_bytes) { /* a frame begins: its first byte says how long it is */
                    c->is_ping = (unsigned char)*at == 0x89;
                    c->in_bytes = c->is_ping ? PING_FRAME : CLIENT_FRAME;
                }
                size_t take = (size_t)(end - at) < c->in_bytes ? (size_t)(end - at) : c->in_bytes;
                at += take;
                c->in_bytes -= take;
                if (c->in_bytes) break;
                if (c->is_ping) { say(c->fd, "\x8a\x00", 2); continue; }
                c->frames++;
                if (c->has_asides && checkpoint_every && c->frames % checkpoint_every == 0) say_checkpoint(c);
                say(c->fd, server_frame, SERVER_FRAME);
            }
        }
    }
}

static struct connection *dial(int epoll, int port) {
    struct connection *c = calloc(1, sizeof *c);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(c->fd, (struct sockaddr *)&a, sizeof a)) die("connect");
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    say(c->fd, REQUEST, sizeof REQUEST - 1);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    return c;
}

/* Opens all of them; answers how long that took. Bytes behind an upgrade's answer count as frames. */
static long long open_all(int epoll, int port, int count, struct connection **all) {
    struct epoll_event events[EVENTS];
    long long began = now_ns();
    int dialled = 0, opened = 0;
    while (opened < count) {
        while (dialled < count && dialled - opened < AT_ONCE) { all[dialled] = dial(epoll, port); dialled++; }
        int ready = epoll_wait(epoll, events, EVENTS, 20000);
        if (ready <= 0) die("no upgrade within 20 s");
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            ssize_t size = read(c->fd, c->head + c->head_bytes, sizeof c->head - 1 - c->head_bytes);
            if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (size <= 0) die("a connection was closed before its upgrade");
            c->head_bytes += (size_t)size;
            c->head[c->head_bytes] = 0;
            char *end = strstr(c->head, "\r\n\r\n");
            if (!end || c->open) continue;
            if (strncmp(c->head, "HTTP/1.1 101", 12)) { fprintf(stderr, "frames: refused: %.60s\n", c->head); exit(1); }
            c->open = 1;
            c->in_bytes = c->head_bytes - (size_t)(end + 4 - c->head);
            opened++;
        }
    }
    return now_ns() - began;
}

static int by_size(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

static void load(int port, int count, long long run_ms, long long period_us) {
    int epoll = epoll_create1(0);
    struct connection **all = calloc((size_t)count, sizeof *all);
    long long opened_ns = open_all(epoll, port, count, all);
    size_t trips = 0, room = 1 << 20;
    unsigned *took = malloc(room * sizeof *took);
    static char data[256 * 1024];
    struct epoll_event events[EVENTS];
    struct rusage before, after;
    long long late = 0, began = now_ns(), ends = began + run_ms * 1000000, next = 0;
    getrusage(RUSAGE_SELF, &before);
    if (!period_us)
        for (int i = 0; i < count; i++) { all[i]->sent_ns = now_ns(); say(all[i]->fd, client_frame, CLIENT_FRAME); }
    for (;;) {
        long long now = now_ns();
        if (now >= ends) break;
        if (period_us) {
            long long step = period_us * 1000 / count; /* callers are spread over the period, as unrelated calls are */
            while (next * step <= now - began) {
                struct connection *c = all[next % count];
                if (c->sent_ns) late++; /* its last answer has not come yet */
                else { c->sent_ns = now_ns(); say(c->fd, client_frame, CLIENT_FRAME); }
                next++;
            }
        }
        int ready = epoll_wait(epoll, events, EVENTS, period_us ? 1 : 100);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            ssize_t size = read(c->fd, data, sizeof data);
            if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (size <= 0) die("a connection was closed");
            c->in_bytes += (size_t)size;
            while (c->in_bytes >= SERVER_FRAME) {
                c->in_bytes -= SERVER_FRAME;
                now = now_ns();
                if (trips == room) took = realloc(took, (room *= 2) * sizeof *took);
                took[trips++] = (unsigned)((now - c->sent_ns) / 100);
                c->sent_ns = 0;
                if (!period_us) { c->sent_ns = now; say(c->fd, client_frame, CLIENT_FRAME); }
            }
        }
    }
    getrusage(RUSAGE_SELF, &after);
    qsort(took, trips, sizeof *took, by_size);
    double cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                 (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
    printf("{\"connections\": %d, \"opened_per_s\": %.0f, \"round_trips\": %zu, \"late\": %lld, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"seconds\": %.3f, \"own_cpu_s\": %.3f}\n",
           count, count * 1e9 / (double)opened_ns, trips, late, trips ? took[trips / 2] / 10.0 : 0,
           trips ? took[trips - 1 - trips / 100] / 10.0 : 0, (double)run_ms / 1000, cpu);
}

static void hold(int port, int count) {
    int epoll = epoll_create1(0);
    struct connection **all = calloc((size_t)count, sizeof *all);
    open_all(epoll, port, count, all);
    printf("open\n");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {}
}

int main(int argc, char **argv) {
    client_frame[0] = server_frame[0] = 0x82;
    client_frame[1] = 0x80 | 126;
    server_frame[1] = 126;
    client_frame[2] = server_frame[2] = PAYLOAD >> 8;
    client_frame[3] = server_frame[3] = PAYLOAD & 0xff;
    signal(SIGPIPE, SIG_IGN);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (argc == 3 && !strcmp(argv[1], "serve")) serve(strtoul(argv[2], NULL, 10));
    else if (argc == 6 && !strcmp(argv[1], "load")) load(atoi(argv[2]), atoi(argv[3]), atoll(argv[4]), atoll(argv[5]));
    else if (argc == 4 && !strcmp(argv[1], "hold")) hold(atoi(argv[2]), atoi(argv[3]));
    else { fprintf(stderr, "usage: frames serve CHECKPOINT_EVERY | load PORT CONNECTIONS MILLISECONDS PERIOD_US | hold PORT CONNECTIONS\n"); return 2; }
    return 0;
}
