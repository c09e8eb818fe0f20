// The recorded cases: what is to be kept of them is matched, and what is not has a test of its own.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { EventParser, StreamedText, assemble, merge, splice } from '../rillkeep.js';

const ROOT = new URL('../../../../', import.meta.url);

// revive reads what JSON can't hold.
function revive(_, value) {
  if (value?.$utf16) return String.fromCharCode(...value.$utf16.map((unit) => parseInt(unit, 16)));
  return value;
}

const cases = (path) => JSON.parse(readFileSync(new URL(path, ROOT), 'utf8'), revive).cases;

describe('splice', () => {
  for (const { name, verdict, durable, produced, out } of cases('plane/testdata/splice.json')) {
    test(name, () => {
      if (verdict === 'keep') assert.equal(splice(durable, produced), out);
      else assert.deepEqual(merge(durable, produced), { text: durable, diverged: true });
    });
  }
});

describe('assemble', () => {
  const OVER_HOLES = ['numeric-order-not-text', 'big-seq']; // which the recorded one closes up
  const IMPROVED = { 'torn-read-duplicates': 'abcdef', 'overlapping-rows-not-detected': 'abcde', 'equal-seq-keeps-arrival': 'one' };
  for (const { name, verdict, message, chunks = [], out } of cases('plane/testdata/assemble.json')) {
    test(name, () => {
      const given = structuredClone(chunks);
      if (name === 'fraction-seq') {
        assert.throws(() => assemble(message?.body, chunks), { code: 'span' });
        return;
      }
      const got = assemble(message?.body, chunks);
      if (OVER_HOLES.includes(name)) assert.equal(got.hole.at, 0);
      else assert.deepEqual(got, { text: verdict === 'keep' ? out : IMPROVED[name], hole: null });
      assert.deepEqual(chunks, given);
    });
  }
});

describe('events', () => {
  for (const { name, text } of cases('router/sse/testdata/sse.json')) {
    test(name, () => {
      const want = [];
      let id = '';
      for (const block of text.split('\n\n')) {
        const field = (name) => block.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        id = field('id') ?? id;
        const data = field('data');
        if (data !== undefined) want.push({ data, id });
      }
      for (const size of [1, 7, text.length]) {
        for (const newline of ['\n', '\r\n', '\r']) {
          const parser = new EventParser();
          const sent = text.replaceAll('\n', newline);
          const got = [];
          for (let at = 0; at < sent.length; at += size) got.push(...parser.push(sent.slice(at, at + size)));
          assert.deepEqual(got, want);
        }
      }
    });
  }

  test('fields are read as the standard says', () => {
    const parser = new EventParser();
    const events = parser.push(': ping\n\nid: 1\n\ndata\n\ndata:a\ndata:  b\nretry: 5\nevent: x\nother: y\n\nid: 2\0\ndata: c\n\nid\ndata: d\n\ndata: cut');
    assert.deepEqual(events, [{ data: '', id: '1' }, { data: 'a\n b', id: '1' }, { data: 'c', id: '1' }, { data: 'd', id: '' }]);
  });
});

// View is an application's view of a stream, whose connections are the test's.
class View {
  connections = [];
  errors = [];
  syncFrames = [];
  closes = 0;
  live = null;

  constructor(endpoint = 'http://node.test') {
    this.store = new StreamedText({
      url: endpoint,
      source: (request, tell) => this.#connect(request, tell),
      onError: (error) => this.errors.push(error.code),
    });
  }

  #connect({ url }, tell) {
    const { pathname, searchParams } = new URL(url);
    const connection = { url, id: decodeURIComponent(pathname.split('/').at(-1)), from: searchParams.get('from'), tell, open: true };
    this.connections.push(connection);
    for (const frame of this.syncFrames) tell.event({ data: JSON.stringify(frame), id: '' });
    return () => {
      connection.open = false;
      this.closes += 1;
    };
  }

  do(op) {
    switch (op.op) {
      case 'render': this.store.update({ streamId: op.streamId, text: op.durable, live: op.live }); break;
      case 'frames': this.send(op.frames); break;
      case 'syncFrames': this.syncFrames = op.frames; break;
      case 'unmount': this.store.close(); break;
      default: assert.fail(op.op);
    }
    return this.store.getSnapshot();
  }

  // send goes to the newest connection, also when it is closed.
  send(frames) {
    for (const frame of frames) this.connections.at(-1).tell.event({ data: JSON.stringify(frame), id: '' });
  }

  get attached() {
    return this.connections.some(({ open }) => open);
  }
}

describe('hook', () => {
  const all = cases('router/web/client/test/testdata/hook.json');

  for (const { name, verdict, ops, expect, endpoint } of all) {
    if (verdict !== 'keep') continue;
    test(name, () => {
      mock.timers.enable({ apis: ['setTimeout'] });
      const view = new View(endpoint && `http://node.test${endpoint}`);
      const steps = expect.values();
      for (const op of ops) {
        const text = view.do(op);
        if (op.op === 'syncFrames') continue;
        const want = steps.next().value;
        const urls = want.urls.map((url) => new URL(url, 'http://node.test').searchParams);
        assert.equal(text, want.text);
        assert.deepEqual(view.connections.map(({ id, from }) => [id, from]), urls.map((q) => [q.get('streamId'), q.get('from')]));
        assert.deepEqual(view.errors, want.errors);
        assert.equal(view.attached, want.attached);
        // The recorded one counts a second time when it detaches what is detached already.
        assert.equal(view.closes, Math.min(want.detaches, view.connections.length));
      }
      for (const { url } of view.connections) {
        for (const [key, value] of new URL(endpoint ?? '/', 'http://node.test').searchParams) assert.equal(new URL(url).searchParams.get(key), value);
      }
      view.do({ op: 'unmount' });
      mock.timers.reset();
    });
  }

  // What is wanted in place of the recorded answer: what the view shows and says at last.
  const IMPROVED = {
    'absent-never-rejoins': { shown: 'abcd', errors: [], rejoins: ['1', '1'] },
    'switch-back-starts-over': { shown: 'first', errors: [], rejoins: ['0', '1', '3'] },
    'replay-shorter-than-shown-shrinks-tail': { shown: 'abcdef', errors: [], rejoins: ['0'] },
    'clamped-open-below-join': { shown: 'abcdef', errors: ['diverged'], rejoins: ['6'] },
    'diverged-durable-mixes': { shown: 'abc', errors: ['diverged'], rejoins: ['0'] },
    'open-of-another-stream': { shown: '', errors: ['other_stream'], rejoins: ['0', '0'] },
  };

  for (const { name, verdict, ops } of all) {
    if (verdict === 'keep') continue;
    test(`${name}, improved`, () => {
      mock.timers.enable({ apis: ['setTimeout'] });
      const view = new View();
      let before = { id: '', text: '' };
      for (const op of ops) {
        const text = view.do(op);
        const id = op.streamId ?? before.id;
        const { diverged } = merge(before.text, text);
        if (id === before.id && !diverged && view.errors.length === 0) assert.ok(text.length >= before.text.length, `${text} is shown after ${before.text}`);
        before = { id, text };
      }
      mock.timers.tick(10000);
      const { shown, errors, rejoins } = IMPROVED[name];
      assert.equal(view.store.getSnapshot(), shown);
      assert.deepEqual(view.errors, errors);
      assert.deepEqual(view.connections.map(({ from }) => from), rejoins);
      view.do({ op: 'unmount' });
      assert.equal(view.attached, false);
      mock.timers.reset();
    });
  }

  test('a listener is told, and the snapshot is the same string until it changes', () => {
    const view = new View();
    let calls = 0;
    const leave = view.store.subscribe(() => { calls += 1; });
    view.do({ op: 'render', streamId: 'm1', durable: 'ab', live: true });
    view.send([{ type: 'chunk', from: 2, seq: 3, text: 'c' }]);
    assert.equal(view.store.getSnapshot(), 'abc');
    assert.equal(calls, 2);
    leave();
    view.send([{ type: 'chunk', from: 3, seq: 4, text: 'd' }]);
    assert.equal(calls, 2);
    for (const stored of ['', 'a', 'other']) assert.equal(view.store.shown('m2', stored), stored); // before its update
    view.do({ op: 'unmount' });
  });
});
