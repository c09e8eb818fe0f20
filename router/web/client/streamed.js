// An application's own stored text, with what is streamed of it on top.

import { attempt, misfit } from './http.js';
import { Reader } from './reader.js';
import { merge } from './text.js';

/**
 * An application's own stored text of a stream, joined with what a node streams of it: what a view
 * needs that has the one from its database and wants the other on top. update says what is stored, as
 * often as that changes; a stream is joined where the stored text ends when it goes live, and not again.
 * subscribe and getSnapshot make it a store, such as React's useSyncExternalStore takes.
 */
export class StreamedText {
  #options;
  #reader = null;
  #leave = null;
  #live = false;
  #stored = { streamId: '', text: '' };
  #diverged = false;
  #listeners = new Set();

  /** options are those of follow, without the streamId and where to join. */
  constructor(options = {}) {
    this.#options = options;
  }

  update({ streamId, text, live }) {
    const other = streamId !== this.#stored.streamId;
    this.#stored = { streamId, text };
    if (other) this.#drop();
    if (!live) this.#reader?.close();
    if (live && (other || !this.#live)) {
      this.#drop();
      this.#reader = new Reader({ ...this.#options, streamId, text });
      this.#leave = this.#reader.subscribe(() => this.#changed());
    }
    this.#live = live;
    this.#changed();
  }

  /** The text to show of a stream of which stored is stored: no other stream's tail, not for a moment. */
  shown(streamId, stored) {
    const state = this.#reader?.state;
    return state?.streamId === streamId ? merge(stored, state.text).text : stored;
  }

  getSnapshot = () => this.shown(this.#stored.streamId, this.#stored.text);

  subscribe = (listener) => {
    const mine = () => listener();
    this.#listeners.add(mine);
    return () => this.#listeners.delete(mine);
  };

  /** The reader's state; null before there is one. */
  get state() {
    return this.#reader?.state ?? null;
  }

  close() {
    this.#reader?.close();
    this.#live = false;
  }

  #drop() {
    this.#leave?.();
    this.#reader?.close();
    this.#reader = this.#leave = null;
    this.#diverged = false;
  }

  #changed() {
    this.#check();
    for (const listener of this.#listeners) attempt(listener);
  }

  // check reports, once, texts that do not belong together.
  #check() {
    if (!this.#reader || this.#diverged) return;
    this.#diverged = merge(this.#stored.text, this.#reader.state.text).diverged;
    if (this.#diverged) attempt(this.#options.onError, misfit('diverged', 'the stored text is not the streamed one'));
  }
}
