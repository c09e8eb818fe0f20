/** Reads and produces the streams of a Rillkeep cluster. Offsets and lengths are what a string's length counts. */

export type Status = 'streaming' | 'complete' | 'cancelled' | 'error' | 'interrupted';

export interface OpenFrame {
  type: 'open';
  streamId: string;
  /** Where what follows begins: of another open than the first, where the text is taken back to. */
  from: number;
  seq: number;
  durableSeq: number;
  ended: boolean;
}

export interface ChunkFrame {
  type: 'chunk';
  from: number;
  seq: number;
  text: string;
}

export interface DurableFrame {
  type: 'durable';
  seq: number;
}

export interface EndFrame {
  type: 'end';
  /** The durable length. */
  seq: number;
  status: Exclude<Status, 'streaming'>;
  error?: string;
}

export type Frame = OpenFrame | ChunkFrame | DurableFrame | EndFrame;

/** An answer that is not a good one, or, with the status 0, none or one that breaks the rules. */
export class RillkeepError extends Error {
  constructor(error: { status?: number; code: string; message: string; want?: number }, options?: { cause?: unknown });
  /** Reads the error of an answer. */
  static of(answer: Response): Promise<RillkeepError>;
  /** Of HTTP. */
  readonly status: number;
  /** The API's, or one of the client's own: unreachable, silent, no_events; of what a reader does not take malformed, span, gap, conflict, short, other_stream, old_epoch, diverged; of a producer behind, closed. */
  readonly code: string;
  readonly want?: number;
}

/** Where and who. */
export interface Access {
  /** Base URL of a node, such as http://127.0.0.1:8080; in a browser it may be left out for the page's own. */
  url?: string | URL;
  /** More nodes of one cluster, in place of url: each is as good, and one that is lost leads to the next. */
  urls?: readonly (string | URL)[];
  streamId: string;
  /** Sent as a bearer token; a function is asked for each connection. */
  token?: string | (() => string | Promise<string>);
  /** Ends everything at once. */
  signal?: AbortSignal | null;
  /** Delays in ms before what failed is tried again: the first, doubled and jittered, and the longest. */
  retry?: { first?: number; most?: number };
  /** In place of the global one. */
  fetch?: typeof fetch;
}

export interface Events {
  event(event: { data: string; id: string }): void;
  /** There are no more: why, or null if the connection just ended. */
  lost(why: RillkeepError | null): void;
  /** It is lost for now, and comes back by itself. */
  waiting(): void;
}

/** Connects, and returns what closes that. */
export type Source = (request: { url: string; token: string; silence: number; fetch: typeof fetch }, tell: Events) => () => void;

export interface ReaderState {
  readonly streamId: string;
  /** Where text begins: 0, unless the reader joined at an offset without the text before it. */
  readonly from: number;
  readonly text: string;
  /** The end of the durable text, as last told. */
  readonly durable: number;
  /** The end of the produced text, as last told. */
  readonly produced: number;
  /** Where another reader can go on: the end of the text, and its epoch. */
  readonly position: string;
  /** '' until it is known. */
  readonly status: Status | '';
  /** The producer's message, of a stream that ended with the status error. */
  readonly error: string | null;
  /** What is read: 'auto', 'live' or 'durable'; or why not. */
  readonly link: 'connecting' | 'waiting' | 'closed' | Plane;
  /** Why there is no connection, if a node said so or none was reached. */
  readonly problem: RillkeepError | null;
}

/** Auto leaves it to the node; live has the client itself go on in the durable text where there is no live one, so that the state's link tells which is read. */
export type Plane = 'auto' | 'live' | 'durable';

export interface ReaderOptions extends Access {
  /** Where to join: an offset, or the position of a state. */
  from?: number | string;
  /** The text so far, if it is known: joins after it, in place of from. */
  text?: string;
  /** Default: auto. */
  plane?: Plane;
  /** Default: fetch. EventSource has no header for the token, which goes into the URL, and notices no silence. */
  source?: 'fetch' | 'eventsource' | Source;
  /** How long in ms a connection may bring nothing, not even a ping: 45,000. */
  silence?: number;
  onChange?(state: ReaderState): void;
  /** Told of what did not fit, and was read again. */
  onError?(error: RillkeepError): void;
}

/** Follows a stream, through as many connections as it takes, until it ends, the reader is closed, or a node refuses. */
export class Reader implements AsyncIterable<Frame> {
  constructor(options: ReaderOptions);
  /** What is known now: the same object until that changes. */
  readonly state: ReaderState;
  /** Resolves with the last state, for whatever reason it is the last. */
  readonly done: Promise<ReaderState>;
  /** Has listener called after each change; returns what ends that. */
  subscribe(listener: () => void): () => void;
  /** Stops following; nothing is called after it. */
  close(): void;
  /** The frames from where the reader joined on. Who is slow gets chunks merged. Leaving the loop closes the reader. */
  [Symbol.asyncIterator](): AsyncGenerator<Frame, void, void>;
}

export function follow(options: ReaderOptions): Reader;

export interface Ack {
  /** What the node has. */
  seq: number;
  durableSeq: number;
}

export interface Sealed extends Ack {
  status: Exclude<Status, 'streaming'>;
}

export interface ProducerOptions extends Access {
  /** Names who produces: who resumes a stream gives the name that it was opened with. Default: one that nobody else has. */
  producer?: string;
  /** Kept with the stream; anything that is JSON. */
  meta?: unknown;
  /** Goes on with a stream that is there, where its text ends. */
  resume?: boolean;
  /** How much is kept that is not durable: with more, push waits. Default: 1,048,576 units. */
  backlog?: number;
  /** How long in ms to try, once a node is lost, until one takes the stream again. Default: for ever. */
  patience?: number;
  /** For an answer, in ms: 45,000. */
  timeout?: number;
  /** How long in ms to say nothing at the most: 15,000. A stream whose producer is silent for a minute is sealed. */
  keepalive?: number;
  onAck?(ack: Ack): void;
  /** Told why a node was given up for another. */
  onLost?(why: RillkeepError): void;
}

export type Deltas = AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array> | ReadableStream<string | Uint8Array>;

/** Produces one stream, whichever node dies: it keeps what is not durable, resumes, and sends that again. */
export class Producer {
  private constructor();
  /** Where the next delta starts. */
  readonly seq: number;
  readonly acked: Ack;
  /** Is aborted when the stream takes no more, and its reason says why: give it to what the deltas come from. */
  readonly signal: AbortSignal;
  /** Resolves when the producer has ended: with how the stream ended, if that is known, and why it took no more, unless this producer sealed it. */
  readonly done: Promise<{ sealed: Sealed | null; error: unknown }>;
  /** Resolves when there is room for another delta, not when this one has arrived. Rejects with why no more is taken. */
  push(delta: string): Promise<void>;
  /** Pushes all that a source gives: strings, or bytes of UTF-8. An error of the source is thrown; the stream stays open. */
  pump(source: Deltas): Promise<void>;
  /** Resolves when all that was pushed before is durable. */
  flush(): Promise<void>;
  /** Seals the stream when all is there: complete, or cancelled if it was asked to stop. */
  close(): Promise<Sealed>;
  /** Closes a text that is not whole. */
  interrupt(): Promise<Sealed>;
  /** Closes with an error, whose message all readers see. */
  fail(message: string): Promise<Sealed>;
}

/** Opens a stream, or resumes it. */
export function produce(options: ProducerOptions): Promise<Producer>;

/** An application's stored text with what is streamed of it on top; a store, such as useSyncExternalStore takes. */
export class StreamedText {
  constructor(options?: Omit<ReaderOptions, 'streamId' | 'from' | 'text'>);
  /** Says what is stored. A stream that goes live is joined where the stored text ends, and not again when that grows. */
  update(stored: { streamId: string; text: string; live: boolean }): void;
  /** The text to show of a stream of which stored is stored. */
  shown(streamId: string, stored: string): string;
  /** The text to show now. */
  getSnapshot: () => string;
  subscribe: (listener: () => void) => () => void;
  readonly state: ReaderState | null;
  close(): void;
}

/** The longer of two prefixes of one text, which they are trusted to be. */
export function splice(stored: string, streamed: string): string;

/** Splice of texts that may not belong together: then it is the stored one. */
export function merge(stored: string, streamed: string): { text: string; diverged: boolean };

/** The durable text of a stream: body, and the rows beyond it, each placed by its end. It stops at a hole. */
export function assemble(body: string | null | undefined, rows?: readonly { seq: number; text: string }[]): { text: string; hole: { at: number; next: number } | null };

/** Parses a text/event-stream whose text comes in any parts. */
export class EventParser {
  push(part: string): { data: string; id: string }[];
}
