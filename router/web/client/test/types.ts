// What the types are to allow, and what not; checked, never run.

import { RillkeepError, StreamedText, assemble, follow, merge, produce } from '../rillkeep.js';

const url = new URL('http://127.0.0.1:8080');

export async function reading(): Promise<string> {
  const reader = follow({ urls: [url, 'http://127.0.0.1:8081'], streamId: 's', token: async () => 't', onChange: ({ text, link }) => [text, link] });
  let text = '';
  for await (const frame of reader) {
    switch (frame.type) {
      case 'open': text = text.slice(0, frame.from); break;
      case 'chunk': text += frame.text; break;
      case 'durable': break;
      case 'end': return frame.error ?? frame.status;
      default: frame satisfies never;
    }
  }
  const { problem } = await reader.done;
  if (problem instanceof RillkeepError) return problem.code;
  // @ts-expect-error the state is not the reader's owner's to change
  reader.state.text = '';
  // @ts-expect-error no such plane
  follow({ streamId: 's', plane: 'both' });
  // @ts-expect-error a stream has a name
  follow({ url });
  return text;
}

export async function producing(deltas: AsyncIterable<string>, body: ReadableStream<Uint8Array>): Promise<number> {
  const producer = await produce({ url, streamId: 's', meta: { model: 'm' }, resume: true });
  await producer.push('text');
  await producer.pump(deltas);
  await producer.pump(body);
  await producer.flush();
  // @ts-expect-error a delta is a string
  await producer.push(7);
  const { sealed, error } = await producer.done;
  if (error) return (await producer.fail(String(error))).seq;
  return sealed?.durableSeq ?? producer.acked.durableSeq;
}

export function showing(store: StreamedText): string {
  store.update({ streamId: 's', text: 'stored', live: true });
  store.subscribe(() => {})();
  return merge(store.getSnapshot(), assemble(null, [{ seq: 1, text: 'a' }]).text).text;
}
