import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, mock, test } from 'node:test';
import { RillkeepError, follow } from '../rillkeep.js';
import { Fake } from './fake.js';

const retry = { first: 1, most: 20 };
const LONG = Array.from({ length: 200 }, (_, i) => `word ${i} 漢😀`).join(' ');

let fake;
let url;

beforeEach(async () => {
  fake = new Fake();
  url = await fake.open();
});
afterEach(() => fake.close());

// read puts frames together as the rules say, and checks each.
async function read(reader) {
  let text = '';
  let last;
  const opens = [];
  for await (const frame of reader) {
    last = frame;
    if (frame.type === 'open') {
      assert.ok(frame.from <= text.length);
      text = text.slice(0, frame.from);
      opens.push(frame.from);
    } else if (frame.type === 'chunk') {
      assert.equal(frame.from, text.length);
      assert.equal(frame.seq, frame.from + frame.text.length);
      text += frame.text;
    }
  }
  return { text, last, opens };
}

// until waits for a state.
function until(reader, holds) {
  return new Promise((resolve) => {
    const look = () => holds(reader.state) && resolve(leave());
    const leave = reader.subscribe(look);
    look();
  });
}

describe('a reader', () => {
  test('has the text whole through cut connections, however the bytes are split', async () => {
    fake.cut = 7;
    fake.piece = 3;
    fake.push('s', LONG);
    fake.end('s', 'error', 'the model broke');
    const reader = follow({ url, streamId: 's', retry });
    const { text, last, opens } = await read(reader);
    assert.equal(text, LONG);
    assert.deepEqual(opens, [0]);
    assert.deepEqual(last, { type: 'end', seq: LONG.length, status: 'error', error: 'the model broke' });
    assert.ok(fake.calls('read').length > 20);
    assert.deepEqual(await reader.done, {
      streamId: 's', from: 0, text: LONG, durable: LONG.length, produced: LONG.length, position: `${LONG.length}@1`,
      status: 'error', error: 'the model broke', link: 'closed', problem: null,
    });
    assert.equal(fake.calls('read')[1].query.get('from'), '30@1');
  });

  test('is taken back by a new epoch, in one connection or between two', async () => {
    for (const cut of [0, 4]) {
      const streamId = `epoch-${cut}`;
      fake.cut = cut;
      fake.push(streamId, 'kept; ');
      fake.change(streamId, (stream) => { stream.durable = 6; });
      fake.push(streamId, 'lost with its owner');
      const reader = follow({ url, streamId, retry });
      const reading = read(reader);
      await until(reader, ({ text }) => text === 'kept; lost with its owner');
      fake.crash(streamId);
      fake.push(streamId, 'made anew');
      fake.end(streamId, 'complete');
      const { text, opens } = await reading;
      assert.equal(text, 'kept; made anew');
      assert.deepEqual(opens, [0, 6]);
    }
  });

  test('starts as what it was joined at, and asks for what comes after', async () => {
    fake.push('s', 'The quick brown fox');
    fake.end('s', 'complete');
    const known = follow({ url, streamId: 's', text: 'The quick' });
    assert.equal(known.state.text, 'The quick');
    assert.equal((await known.done).text, 'The quick brown fox');
    const rest = follow({ url, streamId: 's', from: '9@1' });
    assert.equal((await rest.done).text, ' brown fox');
    assert.equal(rest.state.from, 9);
    assert.deepEqual(fake.calls('read').map(({ query }) => query.get('from')), ['9', '9@1']);
    assert.throws(() => follow({ url, streamId: 's', from: -1 }), TypeError);
  });

  test('that joined at an offset is taken below it by a new epoch', async () => {
    fake.push('s', 'abcdef');
    fake.change('s', (stream) => { stream.durable = 3; });
    const reader = follow({ url, streamId: 's', from: 5, retry });
    const frames = reader[Symbol.asyncIterator]();
    assert.deepEqual([(await frames.next()).value.from, (await frames.next()).value.text], [5, 'f']);
    fake.crash('s');
    fake.push('s', 'XYZ');
    assert.deepEqual([(await frames.next()).value.from, (await frames.next()).value.text], [3, 'XYZ']);
    assert.equal(reader.state.from, 3);
    await frames.return();
  });

  test('asks the next of its servers, with its token in the header', async () => {
    const gone = new Fake();
    const dead = await gone.open();
    gone.close();
    fake.token = 'secret';
    fake.push('s', 'text');
    fake.end('s', 'complete');
    const reader = follow({ urls: [dead, url], streamId: 's', retry, token: async () => 'secret' });
    assert.equal((await reader.done).text, 'text');
    assert.equal(fake.calls('read')[0].headers.authorization, 'Bearer secret');
  });

  test('is told when it may not read, and asks no more', async () => {
    fake.token = 'secret';
    const reader = follow({ url, streamId: 's', retry });
    await assert.rejects(read(reader), (error) => error instanceof RillkeepError && error.status === 401 && error.code === 'unauthorized');
    assert.equal(fake.requests.length, 1);
    assert.equal((await reader.done).problem.code, 'unauthorized');
  });

  test('waits a little for a stream that is yet to be opened, and not for ever', async () => {
    const early = follow({ url, streamId: 's', retry: { first: 20, most: 20 } });
    await until(early, ({ problem }) => problem?.status === 404);
    fake.push('s', 'text');
    fake.end('s', 'complete');
    assert.equal((await early.done).text, 'text');
    assert.equal(early.state.problem, null);
    await assert.rejects(read(follow({ url, streamId: 'never', retry })), { status: 404, code: 'not_found' });
  });

  test('goes on after refusals that pass, empty answers and silence', async () => {
    for (const fault of [503, 429, 204, 'hang', 'lost before']) {
      const streamId = `fault ${fault}`;
      fake.push(streamId, 'text');
      fake.end(streamId, 'complete');
      fake.fail('read', fault);
      assert.equal((await follow({ url, streamId, retry, silence: 300 }).done).text, 'text');
    }
    assert.equal(fake.requests.length, 10);
  });

  test('gives up a connection that is silent in the middle', async () => {
    fake.push('s', LONG);
    fake.end('s', 'complete');
    fake.stall = 3;
    const reader = follow({ url, streamId: 's', retry, silence: 200 });
    await until(reader, ({ link }) => link === 'auto');
    fake.stall = 0;
    assert.equal((await reader.done).text, LONG);
    assert.equal(fake.calls('read')[1].query.get('from'), '10@1');
  });

  test('that is slow gets chunks merged', async () => {
    fake.push('s', LONG);
    fake.end('s', 'complete');
    const reader = follow({ url, streamId: 's' });
    await reader.done;
    const types = [];
    for await (const frame of reader) types.push(frame.type);
    assert.deepEqual(types, ['open', 'chunk', 'end']);
  });

  test('ends with its signal, with its loop, and with close', async () => {
    fake.push('s', 'text');
    const controller = new AbortController();
    const reading = read(follow({ url, streamId: 's', signal: controller.signal }));
    controller.abort(new Error('enough'));
    await assert.rejects(reading, /enough/);

    const left = follow({ url, streamId: 's' });
    for await (const { type } of left) if (type === 'chunk') break;
    assert.equal(left.state.link, 'closed');

    let calls = 0;
    const closed = follow({ url, streamId: 's', onChange: () => { calls += 1; } });
    closed.close();
    fake.push('s', ' and more');
    assert.equal((await closed.done).text, '');
    assert.equal(calls, 0);
    assert.equal((await read(closed)).text, '');
  });

  test('is not hurt by a listener that throws', async () => {
    const said = mock.method(console, 'error', () => {});
    fake.push('s', 'text');
    fake.end('s', 'complete');
    const reader = follow({ url, streamId: 's', onChange: () => { throw new Error('mine'); } });
    assert.equal((await reader.done).text, 'text');
    assert.ok(said.mock.callCount() > 0);
    said.mock.restore();
  });

  test('refuses the events of an older epoch', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const connections = [];
    const errors = [];
    const source = (request, tell) => {
      connections.push(tell);
      return () => {};
    };
    const send = (frame, id) => connections.at(-1).event({ data: JSON.stringify(frame), id });
    const reader = follow({ url, streamId: 's', source, onError: ({ code }) => errors.push(code) });
    send({ type: 'open', streamId: 's', from: 0, seq: 0, durableSeq: 0, ended: false }, '0@2');
    send({ type: 'chunk', from: 0, seq: 3, text: 'abc' }, '3@2');
    connections.at(-1).lost(null);
    mock.timers.tick(1000);
    send({ type: 'open', streamId: 's', from: 3, seq: 9, durableSeq: 0, ended: false }, '3');
    send({ type: 'chunk', from: 3, seq: 6, text: 'XYZ' }, '6');
    assert.equal(reader.state.text, 'abc');
    assert.deepEqual(errors, ['old_epoch']);
    reader.close();
    mock.timers.reset();
  });

  test('does not trust a connection that says other text again, and reads it all anew', () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const connections = [];
    const errors = [];
    const source = ({ url: at }, tell) => {
      connections.push({ tell, from: new URL(at).searchParams.get('from') });
      return () => {};
    };
    const reader = follow({ url, streamId: 's', source, onError: ({ code }) => errors.push(code) });
    const send = (frame) => connections.at(-1).tell.event({ data: JSON.stringify(frame), id: '' });
    const open = (from) => send({ type: 'open', streamId: 's', from, seq: 6, durableSeq: 0, ended: false });
    for (const other of [{ from: 1, seq: 4, text: 'bXY' }, { from: 0, seq: 2, text: 'aX' }]) {
      open(0);
      send({ type: 'chunk', from: 0, seq: 3, text: 'abc' });
      send({ type: 'chunk', ...other });
      assert.equal(reader.state.text, 'abc');
      mock.timers.tick(5000);
    }
    open(0);
    send({ type: 'chunk', from: 0, seq: 6, text: 'abcdef' });
    assert.equal(reader.state.text, 'abcdef');
    assert.deepEqual(errors, ['conflict', 'conflict']);
    assert.deepEqual(connections.map(({ from }) => from), ['0', '0@1', '0@1']);
    reader.close();
    mock.timers.reset();
  });
});

describe('any reader', () => {
  // The laws of a reader, over schedules that a seed makes.
  const random = (seed) => () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };

  test('shows prefixes of what is produced, never less than before in one epoch, and all of it at the end', () => {
    for (let seed = 1; seed <= 300; seed++) {
      mock.timers.enable({ apis: ['setTimeout'] });
      const dice = random(seed);
      const upTo = (n) => Math.floor(dice() * (n + 1));
      let produced = '';
      let epoch = 1;
      const origins = [0]; // where epochs began
      let drops = 0;
      let connection = null;
      const urls = [];
      const source = ({ url: at }, tell) => {
        urls.push(at);
        const [, offset, given] = /from=(\d+)(?:%40(\d+))?/.exec(at);
        let from = Math.min(Number(offset), produced.length, ...origins.slice(Number(given ?? epoch)));
        from = upTo(2) ? from : upTo(from); // below what was asked for is legal
        connection = { tell, at: from, epoch };
        say({ type: 'open', streamId: 's', from, seq: produced.length, durableSeq: 0, ended: false }, from);
        return () => { connection = null; };
      };
      const say = (frame, point) => connection?.tell.event({ data: JSON.stringify(frame), id: point === undefined ? '' : `${point}@${connection.epoch}` });
      const reader = follow({ url: 'http://node.test', streamId: 's', source });
      let before = { text: '', epoch };
      for (let step = 0; step < 60; step++) {
        const dip = dice();
        if (dip < 0.5) {
          produced += ['a', '漢', '\ud83d\ude00', 'bc '][upTo(3)];
        } else if (dip < 0.85 && connection) {
          const from = upTo(3) ? connection.at : upTo(connection.at);
          const to = from + upTo(produced.length - from);
          connection.at = Math.max(connection.at, to);
          say({ type: 'chunk', from, seq: to, text: produced.slice(from, to) }, to);
        } else if (dip < 0.95 && connection) {
          drops += 1;
          connection.tell.lost(null);
        } else if (dip > 0.98) {
          const began = upTo(produced.length); // its owner is gone, and what was not durable
          produced = produced.slice(0, began) + 'NEW';
          origins.push(began);
          epoch += 1;
          if (connection) {
            drops += 1;
            connection.tell.lost(null);
          }
        } else {
          mock.timers.tick(5000);
        }
        const { text } = reader.state;
        if (connection?.epoch === epoch) {
          assert.ok(produced.startsWith(text), `seed ${seed}: ${text} is shown of ${produced}`);
          if (before.epoch === epoch) assert.ok(text.length >= before.text.length, `seed ${seed}: ${text} after ${before.text}`);
          before = { text, epoch };
        }
      }
      if (!connection) mock.timers.tick(5000);
      say({ type: 'chunk', from: connection.at, seq: produced.length, text: produced.slice(connection.at) }, produced.length);
      assert.equal(reader.state.text, produced, `seed ${seed}`);
      say({ type: 'end', seq: produced.length, status: 'complete' }, produced.length);
      assert.equal(reader.state.link, 'closed');
      assert.equal(urls.length, 1 + drops, `seed ${seed}`);
      mock.timers.reset();
    }
  });
});
