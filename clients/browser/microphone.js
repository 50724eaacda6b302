// The microphone's worklet: mono float samples in, frames of 20 ms of PCM16 out, at the rate that the main thread asks for.
//
// Most browsers open the microphone at the context's rate. Where a context could not be made at the wire's rate, samples are
// interpolated here; speech survives that well.
class Microphone extends AudioWorkletProcessor {
  constructor(options) {
    super();
    this.step = sampleRate / options.processorOptions.rateHz; // source samples for each of ours
    this.frame = new Int16Array(options.processorOptions.rateHz / 50);
    this.filled = 0;
    this.at = 0; // of our next sample, in source samples from the start of this block
    this.last = 0;
  }

  process(inputs) {
    const samples = inputs[0][0];
    if (samples === undefined) return true;
    for (; this.at < samples.length; this.at += this.step) {
      const index = Math.floor(this.at);
      const before = index === 0 ? this.last : samples[index - 1];
      const share = this.at - index;
      const value = before + (samples[index] - before) * (this.step === 1 ? 1 : share);
      this.frame[this.filled++] = Math.max(-1, Math.min(1, value)) * 32767;
      if (this.filled === this.frame.length) {
        this.port.postMessage(this.frame.slice());
        this.filled = 0;
      }
    }
    this.at -= samples.length;
    this.last = samples[samples.length - 1];
    return true;
  }
}

registerProcessor("switchboard-microphone", Microphone);
