// The loudspeaker's worklet: PCM16 pieces in, one after the other, with a flush that drops what has not been played.
//
// Messages to it: {item, samples} (Int16Array at `rateHz`), {flush: true}. From it, about ten times a second while it plays and at a
// flush: {item, playedMs}, which is the only true measure of what was heard.
class Playback extends AudioWorkletProcessor {
  constructor(options) {
    super();
    this.step = options.processorOptions.rateHz / sampleRate; // our samples for each that goes out
    this.rateHz = options.processorOptions.rateHz;
    this.pieces = [];
    this.at = 0; // in the first piece
    this.item = "";
    this.played = 0;
    this.told = 0;
    this.port.onmessage = ({ data }) => {
      if (data.flush) {
        this.tell();
        this.pieces = [];
        this.at = 0;
      } else {
        this.pieces.push(data);
      }
    };
  }

  tell() {
    this.told = this.played;
    this.port.postMessage({ item: this.item, playedMs: Math.round((this.played * 1000) / this.rateHz) });
  }

  process(_inputs, outputs) {
    const output = outputs[0][0];
    for (let index = 0; index < output.length && this.pieces.length > 0; index++) {
      const { item, samples } = this.pieces[0];
      if (item !== this.item) {
        this.item = item;
        this.played = this.told = 0;
      }
      output[index] = samples[Math.floor(this.at)] / 32768;
      this.at += this.step;
      this.played += this.step;
      if (this.at >= samples.length) {
        this.at -= samples.length;
        this.pieces.shift();
      }
    }
    if (this.played - this.told >= this.rateHz / 10 || (this.pieces.length === 0 && this.played !== this.told)) this.tell();
    return true;
  }
}

registerProcessor("switchboard-playback", Playback);
