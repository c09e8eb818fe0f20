// Reads and produces the streams of a Rillkeep cluster, from browsers and Node.
//
//   const reader = follow({ url, streamId, onChange: ({ text }) => render(text) });
//   for await (const frame of follow({ url, streamId })) …
//
//   const producer = await produce({ url, streamId });
//   await producer.pump(deltas);
//   await producer.close();
//
// Offsets and lengths are what a string's length counts. What keeps a reader's text
// exact:
// - the offset to join at is read when a connection is made; text that grows never
//   makes a new one
// - the text starts as what was joined at, not empty
// - a chunk is put at its own offset, never blindly appended
// - a connection's frames belong to it, and to its stream: what comes later is ignored
// - a frame that ends the subscription ends the connection, which would come back for
//   ever
// rillkeep.d.ts has the types, README.md the how and why.

export { RillkeepError } from './http.js';
export { Reader, follow } from './reader.js';
export { Producer, produce } from './producer.js';
export { EventParser } from './source.js';
export { StreamedText } from './streamed.js';
export { assemble, merge, splice } from './text.js';
