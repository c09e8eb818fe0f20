// Against a node that is a process, which is killed. RILLKEEP_PROGRAM is its program.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { follow, produce } from '../rillkeep.js';

const PATIENCE = 60000; // ms for the node to come up
const KILLS = 4;

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

class Node {
  #port;
  #folder = mkdtempSync(join(tmpdir(), 'rillkeep-'));
  #process;

  async start() {
    this.#port ??= await freePort();
    this.#process = spawn(process.env.RILLKEEP_PROGRAM, ['serve', '--listen', `127.0.0.1:${this.#port}`, '--data', this.#folder], { stdio: 'ignore' });
    for (const end = Date.now() + PATIENCE; ; await sleep(20)) {
      const answer = await fetch(`${this.url}/readyz`).catch(() => null);
      if (answer?.ok) return;
      assert.ok(Date.now() < end, 'the node does not come up');
      assert.equal(this.#process.exitCode, null, 'the node has ended');
    }
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  async kill() {
    const gone = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await gone;
  }

  async close() {
    if (this.#process.exitCode === null && this.#process.signalCode === null) await this.kill();
    rmSync(this.#folder, { recursive: true });
  }
}

describe('with a real node', () => {
  const node = new Node();
  before(() => node.start());
  after(() => node.close());

  test('a stream is produced, followed from its middle, cancelled', async () => {
    const { url } = node;
    const producer = await produce({ url, streamId: 'a/b 漢', meta: { model: 'm' } });
    await producer.push('The quick\ud83d');
    await producer.push('\ude00 brown');
    await producer.flush();
    assert.equal(producer.acked.durableSeq, producer.seq);
    const reader = follow({ url, streamId: 'a/b 漢', text: 'The quick' });
    await producer.push(' fox\0');
    const cancelled = await fetch(`${url}/v1/streams/${encodeURIComponent('a/b 漢')}/cancel`, { method: 'POST' });
    assert.equal(cancelled.status, 202);
    await producer.push(' jumps').catch(() => {}); // if that is known already
    assert.equal((await producer.done).error.code, 'cancelled');
    assert.equal((await producer.close()).status, 'cancelled');
    const { text, status, durable } = await reader.done;
    assert.ok('The quick😀 brown fox\ufffd'.startsWith(text) && text.startsWith('The quick😀 brown'), text);
    assert.deepEqual([status, durable], ['cancelled', text.length]);
  });

  test('a pair that is cut by a crash is whole', async () => {
    const { url } = node;
    const producer = await produce({ url, streamId: 'pair' });
    await producer.push('a\ud83d');
    await producer.flush();
    assert.equal(producer.acked.durableSeq, 1); // the half waits for its other half
    await node.kill();
    await node.start();
    await producer.push('\ude00b');
    await producer.close();
    assert.equal((await follow({ url, streamId: 'pair' }).done).text, 'a😀b');
  });

  test('nothing that is produced is lost when the node is killed, and a reader sees just that', async () => {
    const { url } = node;
    const producer = await produce({ url, streamId: 's' });
    const reader = follow({ url, streamId: 's' });
    const read = (async () => {
      let text = '';
      for await (const frame of reader) {
        if (frame.type === 'open') text = text.slice(0, frame.from);
        if (frame.type !== 'chunk') continue;
        assert.equal(frame.from, text.length);
        text += frame.text;
      }
      return text;
    })();
    let want = '';
    let producing = true;
    const pushing = (async () => {
      for (let i = 0; producing; i++) {
        const delta = `word ${i} 漢😀 `;
        want += delta;
        assert.ok(want.startsWith(reader.state.text));
        await producer.push(delta);
        await sleep(5);
      }
    })();
    for (let i = 0; i < KILLS; i++) {
      await sleep(1000 + 300 * Math.random());
      await node.kill();
      await node.start();
    }
    await sleep(500);
    producing = false;
    await pushing;
    assert.deepEqual(await producer.close(), { status: 'complete', seq: want.length, durableSeq: want.length });
    assert.equal(await read, want);
    assert.equal((await follow({ url, streamId: 's' }).done).text, want);
    assert.ok(Number(reader.state.position.split('@')[1]) > 1, reader.state.position);
  });
});
