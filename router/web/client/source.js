// The events of one connection, by fetch or by EventSource. A source is a function that is given
// where to connect and whom to tell, and returns what closes it: after that it tells nothing more.

import { RillkeepError, bound, misfit, unreached } from './http.js';

const MAX_EVENT = 32 << 20; // units: no node sends such an event

/** Parses a text/event-stream; bytes may be split anywhere. */
export class EventParser {
  #rest = '';
  #skip = false; // a line feed that belongs to the carriage return before it
  #data = null;
  #id = '';

  /** Returns the events {data, id} that end in this part of the text. */
  push(part) {
    if (part === '') return [];
    const text = this.#skip && part[0] === '\n' ? part.slice(1) : part;
    this.#skip = part.endsWith('\r');
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = lines.pop();
    const events = [];
    for (const line of lines) {
      if (line === '') {
        if (this.#data !== null) events.push({ data: this.#data, id: this.#id });
        this.#data = null;
      } else {
        this.#field(line);
      }
    }
    if (this.#rest.length + (this.#data?.length ?? 0) > MAX_EVENT) throw misfit('malformed', 'an event is too long');
    return events;
  }

  #field(line) {
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'data') this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
  }
}

// fetchSource reads a connection by fetch: in Node and browsers, with the token in a header, refusals
// told apart, and given up when it is silent.
function fetchSource({ url, token, silence, fetch }, { event, lost }) {
  const closed = new AbortController();
  const watch = bound(closed.signal, silence, 'the node is silent');
  const headers = { accept: 'text/event-stream', ...(token && { authorization: `Bearer ${token}` }) };
  const read = async () => {
    const answer = await fetch(url, { headers, signal: watch.signal, cache: 'no-store' });
    if (!answer.ok) throw await RillkeepError.of(answer);
    if (answer.status === 204 || !answer.headers.get('content-type')?.startsWith('text/event-stream')) {
      await answer.body?.cancel();
      if (answer.status === 204) return; // there is no more for who comes back; asked anew, it says how the stream ended
      throw new RillkeepError({ status: answer.status, code: 'no_events', message: 'the answer is no stream of events' });
    }
    const parser = new EventParser();
    const decoder = new TextDecoder();
    const body = answer.body.getReader();
    try {
      for (;;) {
        const { done, value } = await body.read();
        if (done) return;
        watch.heard();
        for (const each of parser.push(decoder.decode(value, { stream: true }))) {
          event(each);
          if (closed.signal.aborted) return;
        }
      }
    } finally {
      body.cancel().catch(() => {}); // it may be broken already
    }
  };
  const ended = new Promise((_, reject) => { watch.signal.addEventListener('abort', () => reject(watch.signal.reason)); });
  Promise.race([read(), ended]).catch(unreached).then((why) => {
    watch.release();
    if (!closed.signal.aborted) lost(why ?? null);
  });
  return () => {
    closed.abort();
    watch.release(); // a read may stay unanswered after that
  };
}

// eventSource reads a connection by EventSource, which comes back by itself with the last id (once:
// another node may do better), and puts the token into the URL. Why there are no events it does not say: that is asked by fetch.
function eventSource({ url, token, silence, fetch }, { event, lost, waiting }) {
  const source = new EventSource(token ? `${url}${url.includes('?') ? '&' : '?'}access_token=${encodeURIComponent(token)}` : url);
  let stop = () => {};
  let failures = 0; // since the last event
  source.onmessage = ({ data, lastEventId }) => {
    failures = 0;
    event({ data, id: lastEventId });
  };
  source.onerror = () => {
    failures += 1;
    waiting();
    if (source.readyState !== EventSource.CLOSED && failures < 2) return;
    source.close();
    stop = inquire({ url, token, silence, fetch }, lost);
  };
  return () => {
    stop();
    source.close();
  };
}

// inquire tells why there are no events, or null where there are now: to an EventSource that comes
// back to an ended stream the empty answer says so.
function inquire({ url, token, silence, fetch }, lost) {
  const closed = new AbortController();
  const watch = bound(closed.signal, silence, 'the node is silent');
  const headers = { accept: 'text/event-stream', ...(token && { authorization: `Bearer ${token}` }) };
  const ask = async () => {
    const answer = await fetch(url, { headers, signal: watch.signal, cache: 'no-store' });
    if (!answer.ok) return RillkeepError.of(answer);
    answer.body?.cancel().catch(() => {}); // it is not read: another EventSource is
    return null;
  };
  ask().catch(unreached).then((why) => {
    watch.release();
    if (!closed.signal.aborted) lost(why);
  });
  return () => closed.abort();
}

/** @type {Record<string, import('./rillkeep.js').Source>} */
export const SOURCES = { fetch: fetchSource, eventsource: eventSource };
