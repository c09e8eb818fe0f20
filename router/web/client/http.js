// What reader and producer share: errors, servers in turn, waits.

/** An answer that is not a good one, or, with the status 0, none or one that breaks the rules. */
export class RillkeepError extends Error {
  /**
   * @param {{ status?: number, code: string, message: string, want?: number }} error
   * @param {ErrorOptions} [options]
   */
  constructor({ status = 0, code, message, want }, options) {
    super(message, options);
    this.name = 'RillkeepError';
    this.status = status;
    this.code = code;
    this.want = want;
  }

  /** Reads the error of an answer. */
  static async of(answer) {
    try {
      const { error } = await answer.json();
      return new RillkeepError({ status: answer.status, code: String(error.code), message: String(error.message), want: error.want });
    } catch {
      return new RillkeepError({ status: answer.status, code: 'internal', message: `the node answered ${answer.status}` });
    }
  }
}


/** What comes that does not fit: no answer's, and so without a status. */
export function misfit(code, message) {
  return new RillkeepError({ code, message });
}

export class Servers {
  #urls;
  #turn = 0;

  /** @param {Pick<import('./rillkeep.js').Access, 'url' | 'urls'>} options */
  constructor({ url, urls = url === undefined ? [''] : [url] }) {
    if (urls.length === 0) throw new TypeError('give the url of a node');
    this.#urls = urls.map((each) => {
      const { protocol } = new URL(each, globalThis.location?.href);
      if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError('the url of a node is like http://127.0.0.1:8080');
      return String(each);
    });
  }

  get base() {
    return this.#urls[this.#turn];
  }

  /** Asks the next one, if that is still the one that was asked in vain. */
  pass(asked) {
    if (this.base === asked) this.#turn = (this.#turn + 1) % this.#urls.length;
  }
}

// target is the URL of a call. A query of the base stays.
export function target(base, id, action, query) {
  const [before, given] = base.split('?', 2);
  const parameters = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  const all = [...(given ? [given] : []), ...parameters].join('&');
  return `${before.replace(/\/$/, '')}/v1/streams/${encodeURIComponent(id)}${action}${all && `?${all}`}`;
}

export function checkId(id) {
  if (typeof id !== 'string' || id === '') throw new TypeError('streamId is the name of a stream');
  if (id === '.' || id === '..') throw new TypeError(`a URL can't name the stream ${id}`);
  return id;
}

export class Backoff {
  #first;
  #most;
  tries = 0;

  constructor({ first, most }) {
    this.#first = first;
    this.#most = most;
  }

  /** The next delay in ms: twice as long each time, jittered, so that not all come back at once. */
  next() {
    const delay = Math.min(this.#most, this.#first * 2 ** this.tries);
    this.tries += 1;
    return delay * (0.5 + Math.random() / 2);
  }
}

// bound makes a signal that ends with another, or when nothing was heard for ms. Its release is
// called in any case.
export function bound(signal, ms, why) {
  const controller = new AbortController();
  const end = () => controller.abort(signal.reason);
  const late = () => controller.abort(new RillkeepError({ code: 'silent', message: why }));
  let timer = setTimeout(late, ms);
  let released = false;
  signal?.addEventListener('abort', end);
  if (signal?.aborted) end();
  return {
    signal: controller.signal,
    heard() {
      clearTimeout(timer);
      if (!released) timer = setTimeout(late, ms);
    },
    release() {
      released = true;
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
    },
  };
}

/** Resolves after ms, or when signal is aborted. */
export function sleep(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
    if (signal?.aborted) end();
  });
}

// passes reports whether a refusal says nothing of the stream or who asks, only of the moment.
export function passes(status) {
  return status >= 500 || status === 408 || status === 429 || status === 0;
}

export function unreached(error) {
  if (error instanceof RillkeepError) return error;
  return new RillkeepError({ code: 'unreachable', message: 'the node does not answer' }, { cause: error });
}

// report is of an error that is a callback's own, and must cost nobody else anything.
function report(error) {
  if (typeof reportError === 'function') reportError(error);
  else console.error(error);
}

export function attempt(callback, ...args) {
  try {
    callback?.(...args);
  } catch (error) {
    report(error);
  }
}
