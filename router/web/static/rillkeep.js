// Follows one stream of a Rillkeep node and keeps its text. No dependencies.
//
//   const reader = follow('my-stream', { onChange: (state) => render(state.text) });
//   …
//   reader.close();
//
// Offsets are what a string's length counts. What keeps the text exact:
// - the offset to join at is read when a connection is made; text that grows
//   never makes a new one
// - the text starts as what was joined at, not empty
// - a chunk is put at its own offset, never blindly appended
// - a connection's frames belong to it: what comes after close() is ignored
// - a frame that ends the subscription closes the EventSource, which would
//   come back for ever

const FIRST_DELAY = 250; // ms before the first new try, doubled for each after it
const LAST_DELAY = 15000;
const LIVE_AGAIN = 1000; // ms in the durable text before the live one is tried again, doubled likewise
const UNKNOWN_TRIES = 5; // a stream may be followed just before it is opened

/**
 * @param {string} id the stream
 * @param {object} options
 * @param {(state: object) => void} options.onChange called with the state after each frame:
 *   {id, text, durable, produced, status, error, link, problem}, where status is '' until
 *   known, link is 'connecting', 'live', 'durable', 'waiting' or 'closed', and problem is
 *   null or {status, code, message} of an answer that was no stream
 * @param {string} [options.text] the stream's text so far, if it is known: joins after it
 * @param {() => string} [options.token] the access token, '' for none
 * @param {string} [options.base] origin of the node; '' is the page's own
 */
export function follow(id, options) {
  return new Reader(id, options);
}

class Reader {
  #id;
  #onChange;
  #token;
  #base;

  #text; // spliced from the frames
  #held = ''; // longer text shown before, of the same epoch, that the frames are still to reach
  #epoch = 0; // of #text; 0 is not known
  #seq = 0; // the end of the produced text, as last told
  #durable = 0;
  #status = '';
  #error = null;

  #plane = 'live';
  #link = 'connecting';
  #problem = null;
  #reach = 0; // the longest text so far
  #tries = 0; // connections since then
  #falls = 0; // to the durable text
  #source = null;
  #timer = 0;
  #abort = new AbortController();

  constructor(id, { onChange, text = '', token = () => '', base = '' }) {
    this.#id = id;
    this.#onChange = onChange;
    this.#text = text;
    this.#token = token;
    this.#base = base;
    this.#connect();
  }

  /** Stops following; nothing is called after it. */
  close() {
    this.#abort.abort();
    this.#disconnect('closed');
  }

  get state() {
    const text = this.#shown();
    return {
      id: this.#id,
      text,
      durable: this.#durable,
      produced: Math.max(this.#seq, text.length),
      status: this.#status,
      error: this.#error,
      link: this.#link,
      problem: this.#problem,
    };
  }

  #shown() {
    return this.#held.length > this.#text.length ? this.#held : this.#text;
  }

  #url() {
    // The epoch goes along, so that a resume onto other text is noticed.
    const at = this.#epoch ? `${this.#text.length}@${this.#epoch}` : `${this.#text.length}`;
    return `${this.#base}/v1/streams/${encodeURIComponent(this.#id)}?from=${encodeURIComponent(at)}&plane=${this.#plane}`;
  }

  #connect() {
    this.#disconnect('connecting');
    const token = this.#token();
    const source = new EventSource(this.#url() + (token && `&access_token=${encodeURIComponent(token)}`));
    this.#source = source;
    source.onmessage = (event) => {
      if (source === this.#source) this.#receive(event);
    };
    source.onerror = () => {
      if (source !== this.#source) return;
      if (source.readyState === EventSource.CLOSED) {
        this.#disconnect('waiting');
        this.#inquire();
      } else {
        this.#link = 'waiting'; // the browser comes back by itself, with the last id
      }
      this.#changed();
    };
  }

  #disconnect(link) {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    this.#link = link;
  }

  #changed() {
    if (!this.#abort.signal.aborted) this.#onChange(this.state);
  }

  // again connects anew, live if that goes: at once the first time, later and
  // later without progress.
  #again() {
    this.#disconnect('waiting');
    this.#plane = 'live';
    const delay = this.#tries === 0 ? 0 : Math.min(LAST_DELAY, FIRST_DELAY * 2 ** this.#tries);
    this.#tries += 1;
    this.#timer = setTimeout(() => this.#connect(), delay * (0.5 + Math.random() / 2));
  }

  #receive(event) {
    let frame;
    try {
      frame = JSON.parse(event.data);
    } catch {
      return this.#restart();
    }
    switch (frame.type) {
      case 'open': this.#open(frame, event.lastEventId); break;
      case 'chunk': this.#chunk(frame); break;
      case 'durable': this.#durable = Math.max(this.#durable, frame.seq); break;
      case 'end': this.#end(frame); break;
      case 'stale': case 'absent': this.#fallBack(frame); break;
    }
    this.#changed();
  }

  #open(frame, lastId) {
    const epoch = Number(/^\d+@(\d+)/.exec(lastId)?.[1] ?? 1);
    if (frame.streamId !== this.#id || frame.from > this.#text.length) return this.#restart();
    if (this.#epoch !== 0 && epoch !== this.#epoch) {
      this.#held = ''; // the text from here on was made anew
    } else {
      this.#held = this.#shown(); // the same text comes again
    }
    this.#text = this.#text.slice(0, frame.from);
    this.#epoch = epoch;
    this.#seq = frame.seq;
    this.#durable = frame.durableSeq;
    this.#status ||= 'streaming';
    this.#link = this.#plane;
    this.#problem = null;
    if (this.#plane === 'durable' && !frame.ended) this.#liveLater();
  }

  #chunk({ from, seq, text }) {
    const known = this.#text.slice(from, seq);
    if (from > this.#text.length || seq - from !== text.length || !text.startsWith(known)) {
      return this.#restart();
    }
    if (seq <= this.#text.length) return;
    this.#text = this.#text.slice(0, from) + text;
    const end = Math.min(seq, this.#held.length);
    if (end < seq || !text.startsWith(this.#held.slice(from, end))) this.#held = '';
    this.#seq = Math.max(this.#seq, seq);
    if (seq > this.#reach) {
      this.#reach = seq;
      this.#tries = 0;
    }
  }

  #end(frame) {
    if (frame.seq > this.#text.length) return this.#restart();
    this.#seq = 0;
    this.#durable = frame.seq;
    this.#status = frame.status;
    this.#error = frame.error ?? null;
    this.#disconnect('closed');
  }

  // liveLater tries the live text again: the stream may have been opened, or
  // moved, between the two questions.
  #liveLater() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#plane = 'live';
      this.#connect();
    }, Math.min(LAST_DELAY, LIVE_AGAIN * 2 ** this.#falls));
    this.#falls += 1;
  }

  // fallBack goes on in the durable text, from the offset held.
  #fallBack(frame) {
    if (this.#plane === 'durable') return this.#again();
    if (frame.type === 'stale') this.#durable = Math.max(this.#durable, frame.durableSeq);
    this.#plane = 'durable';
    this.#connect();
  }

  // restart reads the whole stream again: what came did not fit what is held.
  #restart() {
    this.#held = this.#shown();
    this.#text = '';
    this.#again();
  }

  // inquire finds out why there was no stream of events, which an EventSource
  // does not say. An EventSource that comes back to an ended stream is told so
  // by an empty answer; then this one is a stream again.
  async #inquire() {
    const headers = { accept: 'text/event-stream' };
    const token = this.#token();
    if (token) headers.authorization = `Bearer ${token}`;
    const probe = new AbortController();
    const signal = AbortSignal.any([this.#abort.signal, probe.signal, AbortSignal.timeout(10000)]);
    try {
      const answer = await fetch(this.#url(), { headers, signal, cache: 'no-store' });
      this.#problem = answer.ok ? null : await describe(answer);
    } catch {
      this.#problem = { status: 0, code: 'unreachable', message: 'the node does not answer' };
    }
    probe.abort();
    if (this.#abort.signal.aborted) return;
    const status = this.#problem?.status ?? 200;
    const final = [400, 401, 403].includes(status) || (status === 404 && this.#tries >= UNKNOWN_TRIES);
    if (final) this.#disconnect('closed');
    else this.#again();
    this.#changed();
  }
}

/** Reads the API's error of an answer: {status, code, message}. */
export async function describe(answer) {
  try {
    const { error } = await answer.json();
    return { status: answer.status, code: error.code, message: error.message };
  } catch {
    return { status: answer.status, code: '', message: `the node answered ${answer.status}` };
  }
}
