import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { RillkeepError, produce } from '../rillkeep.js';
import { Fake } from './fake.js';

const retry = { first: 1, most: 20 };

let fake;
let url;

beforeEach(async () => {
  fake = new Fake();
  url = await fake.open();
});
afterEach(() => fake.close());

const tick = () => new Promise((resolve) => { setImmediate(resolve); });

// until waits for what a few turns bring.
async function until(holds) {
  while (!holds()) await tick();
}

describe('a producer', () => {
  test('appends what is given, everything since the last time in one request', async () => {
    const producer = await produce({ url, streamId: 'a/b c', producer: 'me', meta: { model: 'm' }, token: 'secret' });
    let want = '';
    for (let i = 0; i < 1000; i++) {
      want += `word ${i} `;
      await producer.push(`word ${i} `);
    }
    assert.equal(producer.seq, want.length);
    await producer.flush();
    assert.deepEqual(producer.acked, { seq: want.length, durableSeq: want.length });
    assert.equal(fake.stream('a/b c').durable, want.length);
    assert.deepEqual(await producer.close(), { status: 'complete', seq: want.length, durableSeq: want.length });
    assert.equal(fake.stream('a/b c').text, want);
    assert.ok(fake.calls('append').length < 20, `${fake.calls('append').length} requests`);
    assert.deepEqual(JSON.parse(fake.calls('open')[0].body), { producer: 'me', meta: { model: 'm' } });
    assert.ok(fake.requests.every(({ headers }) => headers.authorization === 'Bearer secret'));
    assert.ok(fake.requests.slice(1).every(({ query }) => query.get('epoch') === '1.1'));
    assert.deepEqual(await producer.done, { sealed: { status: 'complete', seq: want.length, durableSeq: want.length }, error: null });
    await assert.rejects(producer.push('x'), { code: 'closed' });
  });

  test('sends halves of pairs as they come', async () => {
    const producer = await produce({ url, streamId: 's' });
    for (const unit of ['a\ud83d', '\ude00', '\ud83d']) {
      await producer.push(unit);
      await until(() => producer.acked.seq === producer.seq);
    }
    await producer.close();
    assert.equal(fake.stream('s').text, 'a\ud83d\ude00\ud83d');
    assert.deepEqual(fake.calls('append').map(({ body }) => body), ['{"text":"a\\ud83d"}', '{"text":"\\ude00"}', '{"text":"\\ud83d"}']);
  });

  test('sends a long delta in pieces that a node takes', async () => {
    const long = '\u0001'.repeat(300000);
    const producer = await produce({ url, streamId: 's' });
    await producer.push(long);
    await producer.close();
    assert.equal(fake.stream('s').text, long);
    assert.ok(fake.calls('append').every(({ body }) => body.length < 1 << 20));
  });

  for (const [what, action, fault] of [
    ['an append that is lost', 'append', 'lost before'],
    ['the answer to one', 'append', 'lost after'],
    ['the owner, and what was not durable', 'append', 'crash after'],
    ['a node that is busy', 'append', 503],
    ['a node that hangs', 'append', 'hang'],
    ['an answer to flush', 'flush', 'lost after'],
    ['the owner in a flush', 'flush', 'crash after'],
    ['an answer to close', 'close', 'lost after'],
    ['a close that is lost', 'close', 'lost before'],
    ['an answer to open', 'open', 'lost after'],
    ['an open that is lost', 'open', 'lost before'],
  ]) {
    test(`survives ${what}`, async () => {
      const lost = [];
      fake.fail(action, fault, 2);
      const producer = await produce({ url, streamId: 's', retry, timeout: 500, onLost: ({ code }) => lost.push(code) });
      let want = '';
      for (let i = 0; i < 30; i++) {
        want += `word ${i} 😀`;
        await producer.push(`word ${i} 😀`);
        if (i % 10 === 0) await producer.flush();
        else await tick();
      }
      const sealed = await producer.close();
      assert.deepEqual(sealed, { status: 'complete', seq: want.length, durableSeq: want.length });
      assert.equal(fake.stream('s').text, want);
      assert.equal(lost.length, action === 'close' && fault === 'lost after' ? 1 : 2); // asked again, it says that it has ended
    });
  }

  test('loses nothing when the owner dies over and over', async () => {
    fake.fail('append', 'crash after', 40);
    const producer = await produce({ url, streamId: 's', retry });
    let want = '';
    for (let i = 0; i < 400; i++) {
      want += `${i} `;
      await producer.push(`${i} `);
      if (i % 50 === 49) await producer.flush();
      if (i % 7 === 0) await tick();
    }
    await producer.close();
    assert.equal(fake.stream('s').text, want);
    assert.equal(fake.stream('s').epoch, 41);
  });

  test('waits with its backlog full, and goes on when that is durable', async () => {
    const producer = await produce({ url, streamId: 's', backlog: 10 });
    const done = [];
    const pushes = Array.from({ length: 5 }, (_, i) => producer.push(`-${i}- `).then(() => done.push(i)));
    await tick();
    assert.deepEqual(done, [0, 1, 2]);
    assert.equal(producer.seq, 12);
    await Promise.all(pushes);
    assert.ok(fake.stream('s').durable >= 10);
    for (let i = 5; i < 50; i++) await producer.push(`-${i}- `);
    assert.ok(producer.seq - producer.acked.durableSeq < 15);
    producer.push('and ');
    await producer.push('last');
    await producer.close();
    assert.equal(fake.stream('s').text, `${Array.from({ length: 50 }, (_, i) => `-${i}- `).join('')}and last`);
  });

  test('resumes a stream where it ends, and fences who produced before', async () => {
    const first = await produce({ url, streamId: 's', producer: 'me' });
    await first.push('one ');
    await first.flush();
    await assert.rejects(produce({ url, streamId: 's', producer: 'me' }), { status: 409, code: 'exists' });
    await assert.rejects(produce({ url, streamId: 's', producer: 'you', resume: true }), { status: 409, code: 'held' });
    const second = await produce({ url, streamId: 's', producer: 'me', resume: true });
    assert.equal(second.seq, 4);
    await second.push('two');
    await first.push('other');
    const { error } = await first.done;
    assert.equal(error.code, 'fenced');
    assert.equal(first.signal.reason, error);
    await assert.rejects(first.push('more'), { code: 'fenced' });
    await assert.rejects(first.close(), { code: 'fenced' });
    await second.close();
    assert.equal(fake.stream('s').text, 'one two');
    await assert.rejects(produce({ url, streamId: 's', producer: 'me', resume: true }), { code: 'closed' });
  });

  test('is told of a cancel, and seals the stream as that says', async () => {
    const producer = await produce({ url, streamId: 's' });
    await producer.push('one');
    await producer.flush();
    fake.stream('s').cancelled = true;
    let left = false;
    const source = (async function* () {
      try {
        yield ' two';
        await new Promise(() => {}); // a model that says nothing more
      } finally {
        left = true;
      }
    })();
    await assert.rejects(producer.pump(source), { code: 'cancelled' });
    assert.equal(left, false); // it waits for what never comes, and is told by producer.signal
    assert.equal((await producer.close()).status, 'cancelled');
    assert.equal(fake.stream('s').text, 'one');
  });

  test('knows how the stream ended that another has sealed', async () => {
    const producer = await produce({ url, streamId: 's', retry });
    await producer.push('one');
    await producer.flush();
    fake.end('s', 'interrupted');
    await producer.push(' two');
    await producer.done;
    assert.deepEqual(await producer.close(), { status: 'interrupted', seq: 3, durableSeq: 3 });
  });

  test('fails and interrupts', async () => {
    const failed = await produce({ url, streamId: 'f' });
    await failed.push('text');
    assert.equal((await failed.fail('the model broke')).status, 'error');
    assert.equal(fake.stream('f').error, 'the model broke');
    assert.equal((await failed.close()).status, 'error');
    const broken = await produce({ url, streamId: 'i' });
    await broken.push('text');
    assert.equal((await broken.interrupt()).status, 'interrupted');
    assert.equal(fake.stream('i').text, 'text');
  });

  test('pumps strings, bytes that cut characters, and readable streams', async () => {
    const producer = await produce({ url, streamId: 's' });
    await producer.pump(['one ', 'two ']);
    const bytes = new TextEncoder().encode('漢😀 ');
    await producer.pump((async function* () { for (const byte of bytes) yield Uint8Array.of(byte); })());
    await producer.pump(new Blob(['end']).stream());
    await assert.rejects(producer.pump((async function* () {
      yield '!';
      throw new Error('the model broke');
    })()), /the model broke/);
    await producer.close();
    assert.equal(fake.stream('s').text, 'one two 漢😀 end!');
  });

  test('keeps its stream alive while there is nothing to say', async () => {
    const producer = await produce({ url, streamId: 's', keepalive: 5 });
    await until(() => fake.calls('keepalive').length > 1);
    await producer.close();
  });

  test('goes to the next of its servers, and gives up when its patience ends', async () => {
    const other = await fake.open();
    const gone = new Fake();
    const dead = await gone.open();
    gone.close();
    const producer = await produce({ urls: [dead, url, other], streamId: 's', retry });
    await producer.push('text');
    assert.equal((await producer.close()).status, 'complete');

    const last = await produce({ url, streamId: 't', retry, patience: 50 });
    fake.close();
    await last.push('text');
    const { error } = await last.done;
    assert.ok(error instanceof RillkeepError && error.status === 0);
    await assert.rejects(last.close(), error);
    await assert.rejects(last.flush(), error);
  });

  test('ends with its signal, and leaves the stream to another', async () => {
    const controller = new AbortController();
    const producer = await produce({ url, streamId: 's', producer: 'me', signal: controller.signal });
    await producer.push('one');
    await producer.flush();
    controller.abort(new Error('enough'));
    await assert.rejects(producer.push('two'), /enough/);
    await assert.rejects(producer.close(), /enough/);
    assert.equal(fake.stream('s').status, 'streaming');
    await assert.rejects(produce({ url, streamId: 't', signal: controller.signal }), /enough/);
  });

  test('does not produce over what another has put back', async () => {
    const producer = await produce({ url, streamId: 's', retry });
    await producer.push('durable');
    await producer.flush();
    fake.change('s', (stream) => { stream.text = 'dur'; });
    fake.fail('append', 503);
    await producer.push(' text');
    assert.equal((await producer.done).error.code, 'behind');
  });
});
