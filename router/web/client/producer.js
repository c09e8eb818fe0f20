// Produces a stream, whichever node dies.
//
// What is given goes out in appends, one at a time, each with everything given since the last one:
// the faster the deltas, the fewer requests a delta. What is not durable is kept, and sent again where
// a resumed stream says that its text ends.

import { Backoff, RillkeepError, Servers, attempt, bound, checkId, misfit, passes, sleep, target, unreached } from './http.js';

const PIECE = 128 << 10; // units in an append: fully escaped, six bytes each, a node still takes them
const BACKLOG = 1 << 20; // units that are not durable
const OPEN_TIMEOUT = 15000; // ms: a node that takes longer to open is not one to wait for

/** Opens a stream, or resumes it, and resolves with its producer; see Producer. */
export async function produce(options) {
  const producer = new Producer(options);
  await producer.begin(options.resume ?? false);
  return producer;
}

export class Producer {
  #id;
  #servers;
  #how;
  #retry;
  #name; // of who produces
  #opened = null; // the answer of the last open

  // The text that is not durable begins at #from: first what has arrived, up to #arrived, then what has not.
  #from = 0;
  #sent = [];
  #arrived = 0;
  #unsent = [];
  #tip = 0;
  #half = 0; // 1 if the text ends within a pair: half of one is not made durable
  #durable = 0;
  #waiting = []; // pushes, while too much is not durable

  #heard = 0; // ms, when the node last heard of the producer
  #wanted = 0; // somebody waits for the text to be durable up to here
  #flushing = false;
  #broken = null; // why the stream is to be resumed
  #since = 0; // ms, when that began
  #finishing = false;
  #running = null;
  #sealing = null;
  #sealed = null; // how the stream ended
  #over = new AbortController(); // its reason is why no more is taken
  #wakes = new Set(); // who waits for a change
  #finish;
  #done = new Promise((resolve) => { this.#finish = resolve; });

  /** @param {import('./rillkeep.js').ProducerOptions} options */
  constructor({
    streamId, url, urls, producer = crypto.randomUUID(), token = '', meta, backlog = BACKLOG, patience = Infinity, timeout = 45000,
    keepalive = 15000, retry = {}, fetch = globalThis.fetch.bind(globalThis), signal = null, onAck, onLost,
  }) {
    this.#id = checkId(streamId);
    this.#servers = new Servers({ url, urls });
    this.#name = producer;
    this.#how = { token, meta, backlog, patience, timeout, keepalive, fetch, signal, onAck, onLost };
    this.#retry = new Backoff({ first: 50, most: 1000, ...retry });
    const abort = () => this.#end(signal.reason);
    signal?.addEventListener('abort', abort);
    this.#done.then(() => signal?.removeEventListener('abort', abort));
    if (signal?.aborted) abort();
  }

  /** Opens the stream; produce has done that. */
  async begin(resume) {
    for (;;) {
      try {
        await this.#open(resume);
        break;
      } catch (error) {
        if (!this.#isLost(error)) this.#end(error);
        await this.#pause();
        resume ||= error.status === 0 || ['no_answer', 'internal'].includes(error.code); // who gave no answer may have opened it
      }
    }
    this.#broken = null;
    this.#isWell();
    this.#from = this.#arrived = this.#tip = this.#opened.seq;
    this.#acked(this.#opened);
    this.#running = this.#run();
  }

  /** Where the next delta starts. */
  get seq() {
    return this.#tip;
  }

  /** What the node has, and what is durable of it. */
  get acked() {
    return { seq: this.#arrived, durableSeq: this.#durable };
  }

  /** Is aborted when the stream takes no more; its reason says why. Give it to what the deltas come from. */
  get signal() {
    return this.#over.signal;
  }

  /** Resolves when the producer has ended, with {sealed, error}: how the stream ended if that is known, and why it took no more if not by this producer. */
  get done() {
    return this.#done;
  }

  /**
   * Gives the stream its next delta. Resolves when there is room for another, not when it has arrived:
   * wait for it before the next one, and no more than the backlog is kept. Rejects with why no more is taken.
   */
  async push(delta) {
    if (typeof delta !== 'string') throw new TypeError('a delta is a string');
    this.#check();
    if (this.#waiting.length === 0 && this.#hasRoom) return this.#add(delta);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ delta, resolve, reject });
      this.#wake();
    });
  }

  /**
   * Pushes all that an async iterable gives, or a ReadableStream: strings, or bytes of UTF-8. An error of
   * the source is thrown when what came before it is pushed; the stream stays open.
   */
  async pump(source) {
    const decoder = new TextDecoder();
    const deltas = iterate(source);
    try {
      for (;;) {
        const { done, value } = await this.#unlessOver(Promise.resolve(deltas.next()));
        if (done) break;
        await this.push(typeof value === 'string' ? value : decoder.decode(value, { stream: true }));
      }
      await this.push(decoder.decode());
    } finally {
      deltas.return?.()?.catch?.(() => {}); // not waited for: it may be what never comes
    }
  }

  /** Resolves when all that was pushed before is durable. */
  async flush() {
    const all = this.#waiting.reduce((units, { delta }) => units + delta.length, this.#tip);
    const tip = all - endsInHalf(this.#waiting.at(-1)?.delta, this.#half);
    while (this.#durable < tip) {
      this.#over.signal.throwIfAborted();
      this.#wanted = Math.max(this.#wanted, Math.min(tip, this.#goal));
      this.#wake();
      await this.#change();
    }
  }

  /** Seals the stream when all is there: complete, or cancelled if it was asked to stop. Resolves with how it ended, {status, seq, durableSeq}. */
  close() {
    return this.#seal('close', {});
  }

  /** Closes a text that is not whole. */
  interrupt() {
    return this.#seal('close', { status: 'interrupted' });
  }

  /** Closes with an error, whose message all readers see. */
  fail(message) {
    return this.#seal('fail', { error: String(message) });
  }

  // goal is how far the text can be durable.
  get #goal() {
    return this.#tip - this.#half;
  }

  get #hasRoom() {
    return this.#goal - this.#durable < this.#how.backlog;
  }

  #check() {
    this.#over.signal.throwIfAborted();
    if (this.#finishing) throw misfit('closed', 'the producer was closed');
  }

  #add(delta) {
    if (delta === '') return;
    this.#unsent.push(delta);
    this.#tip += delta.length;
    this.#half = endsInHalf(delta);
    this.#wake();
  }

  #wake() {
    for (const wake of [...this.#wakes]) wake();
  }

  // change resolves when something may have happened, or after ms.
  #change(ms) {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#wakes.delete(wake);
        resolve();
      };
      const timer = ms && setTimeout(wake, ms);
      /** @type {any} */ (timer)?.unref?.(); // alone it keeps no process
      this.#wakes.add(wake);
    });
  }

  #unlessOver(promise) {
    const { signal } = this.#over;
    return new Promise((resolve, reject) => {
      const end = () => reject(signal.reason);
      signal.addEventListener('abort', end);
      if (signal.aborted) end();
      promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', end));
    });
  }

  // pause waits a little, or until it is over.
  async #pause() {
    await sleep(this.#retry.next(), this.#over.signal);
    this.#over.signal.throwIfAborted();
  }

  // run sends what is given until all has arrived and no more comes, or no more is taken.
  async #run() {
    while (!this.#over.signal.aborted) {
      try {
        if (this.#broken) {
          await this.#pause();
          await this.#resume();
        } else if (this.#arrived < this.#tip) {
          await this.#append();
        } else if (this.#finishing && this.#waiting.length === 0) {
          return;
        } else {
          this.#hurry();
          const silent = Date.now() - this.#heard;
          if (silent < this.#how.keepalive) await this.#change(this.#how.keepalive - silent);
          else this.#acked(await this.#hear('/keepalive'));
        }
      } catch (error) {
        if (!this.#isLost(error)) return this.#end(error);
      }
    }
  }

  // isLost takes note of an error that may pass. It reports false of any other, and when patience has ended.
  #isLost(error) {
    if (!(error instanceof RillkeepError) || (!passes(error.status) && error.code !== 'gap') || error.code === 'behind') return false;
    this.#since ||= Date.now();
    if (Date.now() - this.#since > this.#how.patience) return false;
    this.#broken = error;
    attempt(this.#how.onLost, error);
    return true;
  }

  async #append() {
    const batch = this.#take();
    let ack;
    try {
      ack = await this.#hear('/append', { from: this.#arrived }, { text: batch });
    } catch (error) {
      this.#unsent.unshift(batch);
      throw error;
    }
    this.#sent.push(batch);
    this.#arrived += batch.length;
    this.#isWell();
    this.#acked(ack);
  }

  #take() {
    let units = 0;
    let count = 0;
    while (count < this.#unsent.length && units + this.#unsent[count].length <= PIECE) units += this.#unsent[count++].length;
    if (count > 0) return this.#unsent.splice(0, count).join('');
    const [first] = this.#unsent;
    this.#unsent[0] = first.slice(PIECE); // halves of a pair that meet again are one
    return first.slice(0, PIECE);
  }

  // hear is ask of what shows that the producer is there.
  async #hear(action, query, body) {
    const ack = await this.#ask(action, query, body);
    this.#heard = Date.now();
    return ack;
  }

  #isWell() {
    this.#since = 0;
    this.#retry.tries = 0;
  }

  #acked({ durableSeq }) {
    this.#durable = Math.max(this.#durable, durableSeq);
    while (this.#sent.length > 0 && this.#from + this.#sent[0].length <= this.#durable) this.#from += this.#sent.shift().length;
    while (this.#waiting.length > 0 && this.#hasRoom) {
      const { delta, resolve } = this.#waiting.shift();
      this.#add(delta);
      resolve();
    }
    attempt(this.#how.onAck, this.acked);
    this.#wake();
  }

  // hurry has what has arrived committed, if somebody waits for that. It holds up no append.
  #hurry() {
    if (this.#waiting.length > 0) this.#wanted = this.#goal;
    if (this.#flushing || this.#durable >= this.#wanted) return;
    this.#flushing = true;
    const { producerEpoch } = this.#opened;
    this.#ask('/flush').then((ack) => {
      this.#isWell();
      this.#acked(ack);
      return this.#durable < this.#wanted && this.#pause();
    }).catch((error) => {
      if (producerEpoch !== this.#opened.producerEpoch) return; // it was resumed meanwhile, by itself
      if (!this.#isLost(error)) this.#end(error);
    }).finally(() => {
      this.#flushing = false;
      this.#wake();
    });
  }

  // resume goes on with the stream wherever it is.
  async #resume() {
    await this.#open(true);
    const { seq } = this.#opened;
    const kept = [...this.#sent, ...this.#unsent].join('');
    const at = seq - this.#from;
    if (at < 0 || at > kept.length) {
      throw misfit('behind', `the stream ends at ${seq}, and what is here to be sent goes from ${this.#from} to ${this.#tip}`);
    }
    this.#sent = at > 0 ? [kept.slice(0, at)] : [];
    this.#unsent = at < kept.length ? [kept.slice(at)] : [];
    this.#arrived = seq;
    this.#broken = null;
    this.#since = 0;
    this.#acked(this.#opened);
  }

  async #open(resume) {
    const body = { producer: this.#name, ...(this.#how.meta !== undefined && { meta: this.#how.meta }), ...(resume && { resume }) };
    const opened = await this.#call('', {}, body, Math.min(OPEN_TIMEOUT, this.#how.timeout));
    if (opened.status !== 'streaming' && opened.status !== undefined) {
      this.#sealed = { status: opened.status, seq: opened.seq, durableSeq: opened.durableSeq };
      throw new RillkeepError({ status: 409, code: 'closed', message: `the stream has ended: ${opened.status}` });
    }
    this.#opened = opened;
    this.#heard = Date.now();
  }

  #ask(action, query = {}, body = undefined, life = this.#over.signal) {
    const epoch = this.#opened.producerEpoch;
    return this.#call(action, { ...query, ...(epoch && { epoch }) }, body, this.#how.timeout, life);
  }

  async #call(action, query, body, timeout, life = this.#over.signal) {
    const { token, fetch } = this.#how;
    const base = this.#servers.base;
    const url = target(base, this.#id, action, query);
    const payload = body && JSON.stringify(body); // halves of pairs as escapes
    const watch = bound(life, timeout, 'the node takes too long');
    try {
      const given = typeof token === 'function' ? await token() : token;
      const headers = { accept: 'application/json', ...(given && { authorization: `Bearer ${given}` }) };
      if (body !== undefined) headers['content-type'] = 'application/json';
      const answer = await fetch(url, { method: 'POST', headers, body: payload, signal: watch.signal, cache: 'no-store' });
      if (!answer.ok) throw await RillkeepError.of(answer);
      return await answer.json();
    } catch (error) {
      life?.throwIfAborted();
      const why = unreached(watch.signal.aborted ? watch.signal.reason : error);
      if (passes(why.status)) this.#servers.pass(base);
      throw why;
    } finally {
      watch.release();
    }
  }

  #seal(action, body) {
    this.#sealing ??= this.#sealWith(action, body);
    return this.#sealing;
  }

  // sealWith delivers what is left, and ends the stream. Of all that end it the first counts.
  async #sealWith(action, body) {
    this.#finishing = true;
    this.#wake();
    await this.#running;
    const { signal } = this.#over;
    const life = this.#how.signal;
    for (;;) {
      // A stream that takes no more can still be asked how it ended.
      if (signal.aborted && !['closed', 'cancelled'].includes(signal.reason?.code)) throw signal.reason;
      if (this.#sealed) return this.#sealed; // by another; its node may be gone by now
      try {
        const sealed = await this.#ask(`/${action}`, {}, body, life);
        this.#sealed = { status: sealed.status, seq: sealed.seq, durableSeq: sealed.durableSeq };
        this.#acked(sealed);
        this.#end(null);
        return this.#sealed;
      } catch (error) {
        if (!this.#isLost(error)) {
          this.#end(error);
          throw error;
        }
        if (signal.aborted) await sleep(this.#retry.next(), life);
        this.#running = this.#run(); // what was not durable may be lost with its node
        await this.#running;
      }
    }
  }

  // end is the last that happens; why is null where the stream was sealed as it was to be.
  #end(why) {
    if (this.#over.signal.aborted) return;
    this.#over.abort(why ?? misfit('closed', 'the producer was closed'));
    for (const { reject } of this.#waiting.splice(0)) reject(this.#over.signal.reason);
    this.#wake();
    this.#finish({ sealed: this.#sealed, error: why });
  }
}

// endsInHalf returns 1 for a text that ends within a surrogate pair, 0 for any other.
function endsInHalf(text, otherwise = 0) {
  if (!text) return otherwise;
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last < 0xdc00 ? 1 : 0;
}

function iterate(source) {
  if (source[Symbol.asyncIterator]) return source[Symbol.asyncIterator]();
  if (source[Symbol.iterator]) return source[Symbol.iterator]();
  const reader = source.getReader(); // of a ReadableStream, where that is not iterable
  return { next: () => reader.read(), return: () => reader.cancel() };
}
