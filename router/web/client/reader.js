// Follows a stream through its connections.

import { Backoff, RillkeepError, Servers, attempt, checkId, misfit, passes, target, unreached } from './http.js';
import { SOURCES } from './source.js';
import { Text, isOffset } from './text.js';

const LIVE_AGAIN = 1000; // ms in the durable text before the live one is tried again, doubled each time
const UNKNOWN_TRIES = 6; // a stream may be followed just before it is opened

/** Follows a stream until it ends; see Reader. */
export function follow(options) {
  return new Reader(options);
}

// position reads where to join: an offset, or N@E, a state's position.
function position(from) {
  const [, offset, epoch = '0'] = /^(\d+)(?:@(\d+))?$/.exec(String(from)) ?? [];
  if (offset === undefined) throw new TypeError('from is an offset, or the position of a state');
  return { base: Number(offset), text: '', epoch: Number(epoch) };
}

export class Reader {
  #id;
  #servers;
  #token;
  #how;
  #onError;
  #text;
  #start; // what iterators begin with
  #opened = false;
  #status = '';
  #error = null;
  #wanted; // the plane that was asked for
  #plane; // the one that is read
  #link = 'connecting';
  #problem = null;
  #reach = 0; // the longest text so far
  #retry; // counts the connections since then
  #falls = 0; // to the durable text
  #connection = null;
  #timer = 0;
  #state = null; // as last asked for, until it changes
  #listeners = new Set();
  #cursors = new Set();
  #over;
  #finish;
  #signal;
  #abort = () => this.#end();

  /** @param {import('./rillkeep.js').ReaderOptions} options */
  constructor({
    streamId, url, urls, from = 0, text, token = '', plane = 'auto', source = 'fetch', silence = 45000,
    retry = {}, fetch = globalThis.fetch.bind(globalThis), signal, onChange, onError,
  }) {
    this.#id = checkId(streamId);
    this.#servers = new Servers({ url, urls });
    this.#token = token;
    this.#how = { connect: typeof source === 'function' ? source : SOURCES[source], silence, fetch };
    if (!this.#how.connect) throw new TypeError('source is fetch or eventsource');
    this.#text = new Text(streamId, text === undefined ? position(from) : { base: 0, text, epoch: 0 });
    this.#start = this.#reach = this.#text.base + this.#text.shown.length;
    this.#wanted = this.#plane = plane;
    this.#retry = new Backoff({ first: 100, most: 5000, ...retry });
    this.#onError = onError;
    if (onChange) this.#listeners.add(() => onChange(this.state));
    this.#over = new Promise((resolve) => { this.#finish = resolve; });
    this.#signal = signal;
    signal?.addEventListener('abort', this.#abort);
    if (signal?.aborted) this.#end();
    else this.#connect();
  }

  /** What is known now: the same object until that changes. */
  get state() {
    this.#state ??= this.#look();
    return this.#state;
  }

  /** Resolves with the last state, when it follows no more, for whatever reason. */
  get done() {
    return this.#over;
  }

  /** Has listener called after each change; returns what ends that. Listeners are called until the reader is closed. */
  subscribe(listener) {
    const mine = () => listener();
    this.#listeners.add(mine);
    return () => this.#listeners.delete(mine);
  }

  /** Stops following; nothing is called after it. */
  close() {
    this.#listeners.clear();
    this.#end();
  }

  /**
   * The frames from where the reader joined on, until the end frame. Who is slow gets chunks merged,
   * and of durable frames the newest; an open below takes the text back to its from. Leaving the loop
   * closes the reader. It throws the problem that ended the reader, and the signal's reason.
   */
  async *[Symbol.asyncIterator]() {
    const cursor = { low: Infinity, wake: null };
    this.#cursors.add(cursor);
    let at = this.#start;
    let durable = 0;
    let opened = false;
    try {
      for (;;) {
        const { text, from } = this.state;
        const end = from + text.length;
        if (this.#opened && (!opened || cursor.low < at)) {
          at = Math.min(at, cursor.low);
          opened = true;
          cursor.low = Infinity;
          durable = this.#text.durable;
          yield { type: 'open', streamId: this.#id, from: at, seq: this.state.produced, durableSeq: durable, ended: this.#hasEnded };
        } else if (at < end) {
          const chunk = { type: 'chunk', from: at, seq: end, text: this.#text.from(at) };
          at = end;
          yield chunk;
        } else if (this.#text.durable > durable && !this.#hasEnded) {
          durable = this.#text.durable;
          yield { type: 'durable', seq: durable };
        } else if (this.#hasEnded) {
          yield { type: 'end', seq: this.#text.durable, status: this.#status, ...(this.#error !== null && { error: this.#error }) };
          return;
        } else if (this.#link === 'closed') {
          this.#signal?.throwIfAborted();
          if (this.#problem) throw this.#problem;
          return;
        } else {
          await new Promise((resolve) => { cursor.wake = resolve; });
        }
      }
    } finally {
      this.#cursors.delete(cursor);
      this.close();
    }
  }

  get #hasEnded() {
    return this.#status !== '' && this.#status !== 'streaming';
  }

  #look() {
    const { base, shown, seq, durable, position: at } = this.#text;
    return Object.freeze({
      streamId: this.#id, from: base, text: shown, durable, produced: Math.max(seq, base + shown.length), position: at,
      status: this.#status, error: this.#error, link: this.#link, problem: this.#problem,
    });
  }

  #changed(low = Infinity) {
    this.#state = null;
    this.#start = Math.min(this.#start, low);
    for (const cursor of this.#cursors) {
      cursor.low = Math.min(cursor.low, low);
      cursor.wake?.();
    }
    for (const listener of this.#listeners) attempt(listener);
  }

  #connect() {
    this.#disconnect('connecting');
    const connection = { close: null };
    this.#connection = connection;
    const mine = () => connection === this.#connection;
    const token = typeof this.#token === 'function' ? this.#token() : this.#token;
    const begin = (given) => {
      if (!mine()) return;
      const base = this.#servers.base;
      const url = target(base, this.#id, '', { from: this.#text.position, plane: this.#plane });
      connection.base = base;
      const close = this.#how.connect({ url, token: given ?? '', silence: this.#how.silence, fetch: this.#how.fetch }, {
        event: (event) => mine() && this.#receive(event),
        lost: (why) => mine() && this.#lost(why),
        waiting: () => mine() && this.#waiting(),
      });
      if (mine()) connection.close = close;
      else close(); // its events came, and ended it, before there was something to close
    };
    if (typeof token === 'object') token.then(begin).catch((error) => mine() && this.#lost(unreached(error)));
    else begin(token);
  }

  #reconnect() {
    this.#connect();
    this.#changed();
  }

  #disconnect(link) {
    clearTimeout(this.#timer);
    this.#connection?.close?.();
    this.#connection = null;
    this.#link = link;
  }

  // waiting is a connection that comes back by itself.
  #waiting() {
    this.#link = 'waiting';
    this.#changed();
  }

  // end is the last that happens.
  #end() {
    if (this.#link === 'closed') return;
    this.#signal?.removeEventListener('abort', this.#abort);
    this.#disconnect('closed');
    this.#changed();
    this.#finish(this.state);
  }

  // lost goes on with another connection, unless that can't help.
  #lost(why) {
    this.#problem = why;
    this.#servers.pass(this.#connection?.base);
    const unknown = why?.status === 404 && this.#retry.tries < UNKNOWN_TRIES;
    if (why && !passes(why.status) && !unknown) return this.#end();
    this.#again();
    this.#changed();
  }

  // again connects anew, live if that is wanted and goes: later and later without progress.
  #again() {
    this.#disconnect('waiting');
    this.#plane = this.#wanted;
    this.#timer = setTimeout(() => this.#reconnect(), this.#retry.next());
  }

  #receive({ data, id }) {
    let frame;
    let low = Infinity;
    try {
      frame = parse(data);
      switch (frame.type) {
        case 'open': low = this.#open(frame, id); break;
        case 'chunk': low = this.#chunk(frame); break;
        case 'durable': if (isOffset(frame.seq)) this.#text.durable = Math.max(this.#text.durable, frame.seq); break;
        case 'end': return this.#sealed(frame);
        case 'stale': case 'absent': this.#fallBack(frame); break;
      }
    } catch (error) {
      if (!(error instanceof RillkeepError)) throw error;
      attempt(this.#onError, error);
      if (error.code !== 'old_epoch') this.#text.reset();
      this.#servers.pass(this.#connection?.base);
      this.#again();
    }
    this.#changed(low);
  }

  #open(frame, id) {
    const low = this.#text.open(frame, Number(/^\d+@(\d+)/.exec(id)?.[1] ?? 1));
    this.#opened = true;
    this.#status ||= 'streaming';
    this.#link = this.#plane;
    this.#problem = null;
    if (this.#plane !== this.#wanted && !frame.ended) this.#liveLater();
    return low;
  }

  #chunk(frame) {
    const low = this.#text.chunk(frame);
    if (frame.seq > this.#reach) {
      this.#reach = frame.seq;
      this.#retry.tries = 0;
    }
    return low;
  }

  #sealed(frame) {
    this.#text.end(frame);
    this.#status = frame.status;
    this.#error = frame.error ?? null;
    this.#opened = true;
    this.#end();
  }

  // liveLater tries the live text again: the stream may have been opened, or moved, between the two
  // questions.
  #liveLater() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#plane = this.#wanted;
      this.#reconnect();
    }, Math.min(15000, LIVE_AGAIN * 2 ** this.#falls));
    this.#falls += 1;
  }

  // fallBack is of a reader that asked for the live plane alone: it goes on in the durable text, from
  // the offset held. For any other the node has lost the stream.
  #fallBack(frame) {
    if (frame.type === 'stale' && isOffset(frame.durableSeq)) this.#text.durable = Math.max(this.#text.durable, frame.durableSeq);
    if (this.#plane !== 'live') {
      this.#servers.pass(this.#connection?.base);
      return this.#again();
    }
    this.#plane = 'durable';
    this.#connect();
  }
}

function parse(data) {
  try {
    const frame = JSON.parse(data);
    if (typeof frame?.type === 'string') return frame;
  } catch {
    // as any other that is no frame
  }
  throw misfit('malformed', 'an event is no frame');
}
