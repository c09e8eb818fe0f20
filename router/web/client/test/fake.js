// A stand-in for a cluster: one set of streams, served at as many addresses as are opened, that can be
// told to treat its clients badly.

import { once } from 'node:events';
import { createServer } from 'node:http';

export class Fake {
  streams = new Map();
  requests = []; // {method, path, query, headers, body}, in order
  faults = []; // {action, times, fault}: what goes wrong with the next requests of an action
  token = '';
  cut = 0; // frames after which a reader's connection breaks; 0 is never
  stall = 0; // frames after which they say nothing more; 0 is never
  piece = 0; // bytes that are written at once; 0 is all
  #servers = [];

  /** Opens an address. */
  async open() {
    const server = createServer((request, response) => {
      this.#serve(request, response).catch((error) => response.destroy(error));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.#servers.push(server);
    return `http://127.0.0.1:${server.address().port}`;
  }

  close() {
    for (const server of this.#servers) {
      server.closeAllConnections();
      server.close();
    }
  }

  /** Has the next requests of an action fail: lost before or after they are done, refused with a status, or left hanging. */
  fail(action, fault, times = 1) {
    this.faults.push({ action, fault, times });
  }

  stream(id) {
    if (!this.streams.has(id)) {
      this.streams.set(id, { text: '', durable: 0, epoch: 1, session: 1, origins: [0], producer: '', status: 'streaming', error: null, cancelled: false, change: new EventTarget() });
    }
    return this.streams.get(id);
  }

  change(id, how) {
    const stream = this.stream(id);
    how(stream);
    stream.change.dispatchEvent(new Event('change'));
  }

  push(id, text) {
    this.change(id, (stream) => { stream.text += text; });
  }

  /** Loses what is not durable, as with a stream's owner: whoever goes on does so in a new epoch. */
  crash(id) {
    this.change(id, (stream) => {
      stream.text = stream.text.slice(0, stream.durable);
      stream.epoch += 1;
      stream.session = 0;
      stream.origins.push(stream.durable);
    });
  }

  end(id, status, error = null) {
    this.change(id, (stream) => Object.assign(stream, { status, error, durable: stream.text.length }));
  }

  calls(action) {
    return this.requests.filter((request) => request.action === action);
  }

  async #serve(request, response) {
    const url = new URL(request.url, 'http://node');
    const [, id, action] = /^\/v1\/streams\/([^/]+)(?:\/(\w+))?$/.exec(url.pathname);
    const kind = action ?? (request.method === 'GET' ? 'read' : 'open');
    let body = '';
    for await (const chunk of request) body += chunk;
    this.requests.push({ action: kind, query: url.searchParams, headers: request.headers, body });
    const { fault } = this.#fault(kind) ?? {};
    if (this.token && request.headers.authorization !== `Bearer ${this.token}`) return refuse(response, 401, 'unauthorized');
    if (fault === 'lost before') return response.destroy();
    if (fault === 'hang') return;
    if (typeof fault === 'number') return fault === 204 ? response.writeHead(204).end() : refuse(response, fault, 'fault');
    const name = decodeURIComponent(id);
    if (kind === 'read') return this.#read(name, url.searchParams, response);
    const answer = this.#do(kind, name, url.searchParams, body && JSON.parse(body));
    if (fault === 'lost after') return response.destroy();
    if (fault === 'crash after') {
      this.crash(name);
      return response.destroy();
    }
    if (answer.refused) return refuse(response, 409, answer.refused, answer.want);
    return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }

  #fault(action) {
    const next = this.faults.find((fault) => fault.action === action && fault.times > 0);
    if (next) next.times -= 1;
    return next;
  }

  #do(action, id, query, body) {
    if (action === 'open') return this.#openStream(id, body);
    const stream = this.stream(id);
    const epoch = query.get('epoch');
    if (epoch !== null && epoch !== `${stream.epoch}.${stream.session}`) return { refused: 'fenced' };
    const ended = stream.status !== 'streaming';
    switch (action) {
      case 'append': {
        if (ended) return { refused: 'closed' };
        if (stream.cancelled) return { refused: 'cancelled' };
        const from = Number(query.get('from'));
        if (from > stream.text.length) return { refused: 'gap', want: stream.text.length };
        const known = stream.text.slice(from, from + body.text.length);
        if (!body.text.startsWith(known)) return { refused: 'conflict', want: stream.text.length };
        this.push(id, body.text.slice(known.length));
        break;
      }
      case 'flush': this.change(id, (each) => { each.durable = each.text.length; }); break;
      case 'close': if (!ended) this.end(id, stream.cancelled ? 'cancelled' : body.status ?? 'complete'); break;
      case 'fail': if (!ended) this.end(id, 'error', body.error); break;
    }
    return { status: stream.status, seq: stream.text.length, durableSeq: stream.durable };
  }

  #openStream(id, { producer, resume }) {
    const known = this.streams.has(id);
    if (known && !resume) return { refused: 'exists' };
    const stream = this.stream(id);
    if (!known) stream.producer = producer;
    else if (stream.status !== 'streaming') return { status: stream.status, seq: stream.durable, durableSeq: stream.durable };
    else if (stream.producer !== producer) return { refused: 'held' };
    else stream.session += 1;
    return { status: 'streaming', seq: stream.text.length, durableSeq: stream.durable, epoch: stream.epoch, producerEpoch: `${stream.epoch}.${stream.session}` };
  }

  async #read(id, query, response) {
    if (!this.streams.has(id)) return refuse(response, 404, 'not_found');
    const stream = this.stream(id);
    let { epoch } = stream;
    const [, offset, given = '1'] = /^(\d+)(?:@(\d+))?$/.exec(query.get('from'));
    let at = Math.min(Number(offset), stream.text.length, ...stream.origins.slice(Number(given)));
    let durable = stream.durable;
    let sent = 0;
    const frame = (value, point) => {
      const bytes = Buffer.from(`${point === undefined ? '' : `id: ${point}${epoch > 1 ? `@${epoch}` : ''}\n`}data: ${JSON.stringify(value)}\n\n`);
      for (let from = 0; from < bytes.length; from += this.piece || bytes.length) response.write(bytes.subarray(from, from + (this.piece || bytes.length)));
      sent += 1;
      if (sent === this.cut) response.write('data: {"ty', () => response.destroy()); // once that is on its way
    };
    const open = () => frame({ type: 'open', streamId: id, from: at, seq: stream.text.length, durableSeq: stream.durable, ended: stream.status !== 'streaming' }, at);
    const { stall } = this;
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    response.write('retry: 50\n: ping\n');
    open();
    while (!response.destroyed && !(this.cut && sent >= this.cut)) {
      if (sent === stall) return;
      if (stream.epoch !== epoch) {
        at = Math.min(at, ...stream.origins.slice(epoch));
        ({ epoch } = stream);
        open();
      }
      if (at < stream.text.length) {
        const to = Math.min(at + 5, stream.text.length);
        frame({ type: 'chunk', from: at, seq: to, text: stream.text.slice(at, to) }, to);
        at = to;
        continue;
      }
      if (stream.durable > durable) frame({ type: 'durable', seq: durable = stream.durable });
      if (stream.status !== 'streaming') {
        frame({ type: 'end', seq: stream.durable, status: stream.status, ...(stream.error !== null && { error: stream.error }) }, stream.durable);
        return response.end();
      }
      await Promise.race([once(stream.change, 'change'), once(response, 'close')]);
    }
  }
}

function refuse(response, status, code, want) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { code, message: 'refused', want } }));
}
