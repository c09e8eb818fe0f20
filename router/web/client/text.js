// The text of a stream, as its parts put it together.

import { misfit } from './http.js';

/** The longer of two prefixes of one text, which they are trusted to be. */
export function splice(stored, streamed) {
  return stored + streamed.slice(stored.length);
}

/** Splice of texts that may not belong together: then it is the stored one, as what the store will show. */
export function merge(stored, streamed) {
  const diverged = !stored.startsWith(streamed) && !streamed.startsWith(stored);
  return { text: diverged ? stored : splice(stored, streamed), diverged };
}

/**
 * The durable text of a stream: body, and the rows beyond it, in any order. Each is placed by its
 * end and its length, so that what is covered already adds nothing. The text stops at a hole.
 */
export function assemble(body, rows = []) {
  let text = body ?? '';
  for (const row of [...rows].sort((a, b) => a.seq - b.seq)) {
    if (!isOffset(row.seq)) throw misfit('span', `a row ends at ${row.seq}`);
    if (row.seq <= text.length) continue;
    const from = row.seq - row.text.length;
    if (from > text.length) return { text, hole: { at: text.length, next: from } };
    if (from < 0) throw misfit('span', `a row that ends at ${row.seq} holds ${row.text.length} units`);
    text += row.text.slice(text.length - from);
  }
  return { text, hole: null };
}

const RECENT = 8192; // units that are cheap to slice

export const isOffset = (n) => Number.isSafeInteger(n) && n >= 0;

// Text is what a reader has of a stream from an offset on. Its methods throw what does not fit, and
// return from where on what is shown has become other, Infinity if it has at most grown.
export class Text {
  #id;
  base; // where it begins
  epoch; // 0 is not known
  seq = 0; // the end of the produced text, as last told
  durable = 0;
  #text; // put together from the frames
  #held = ''; // longer text shown before, of the same epoch, that the frames are still to reach
  #recent = { at: 0, text: '' }; // the end of the text: slices of the whole would copy it each time

  constructor(id, { base, text, epoch }) {
    this.#id = id;
    this.base = base;
    this.#text = text;
    this.epoch = epoch;
    this.#renew();
  }

  get shown() {
    return this.#held.length > this.#text.length ? this.#held : this.#text;
  }

  /** What is shown from an offset on. */
  from(offset) {
    const { at, text } = this.#recent;
    if (this.#held === '' && offset >= at) return text.slice(offset - at);
    return this.shown.slice(offset - this.base);
  }

  /** Where to go on, with the epoch, so that a resume onto other text is noticed. */
  get position() {
    const end = this.base + this.#text.length;
    return this.epoch ? `${end}@${this.epoch}` : `${end}`;
  }

  /** Forgets the frames, and not what is shown: all is read again. */
  reset() {
    this.#held = this.shown;
    this.#text = '';
    this.#renew();
  }

  #renew() {
    this.#recent = { at: this.base + this.#text.length, text: '' };
  }

  open({ streamId, from, seq, durableSeq }, epoch) {
    const end = this.base + this.#text.length;
    if (![from, seq, durableSeq].every(isOffset)) throw misfit('malformed', 'an open frame lacks its offsets');
    if (streamId !== this.#id) throw misfit('other_stream', 'the events are another stream\'s');
    if (from > end) throw misfit('gap', `the text goes on at ${from}, and not at ${end}`);
    if (epoch < this.epoch) throw misfit('old_epoch', 'the node is behind the times');
    const anew = from < this.base || (this.epoch !== 0 && epoch !== this.epoch); // else the same text comes again
    this.#held = anew ? '' : this.shown;
    this.#text = this.#text.slice(0, Math.max(0, from - this.base));
    this.base = Math.min(this.base, from);
    this.#renew();
    this.epoch = epoch;
    this.seq = seq;
    this.durable = durableSeq;
    return anew ? from : Infinity;
  }

  chunk({ from, seq, text }) {
    if (![from, seq].every(isOffset) || typeof text !== 'string' || seq - from !== text.length) {
      throw misfit('span', 'a chunk does not span its offsets');
    }
    const end = this.base + this.#text.length;
    if (from > end) throw misfit('gap', `the text goes on at ${from}, and not at ${end}`);
    const at = Math.max(from, this.base) - this.base;
    const part = text.slice(this.base + at - from);
    if (!part.startsWith(this.#text.slice(at, at + part.length))) throw misfit('conflict', 'the text came again as another');
    if (seq <= end) return Infinity;
    if (at < this.#text.length || this.#recent.text.length > RECENT) {
      this.#text = this.#text.slice(0, at);
      this.#renew();
    }
    this.#text += part;
    this.#recent.text += part;
    this.seq = Math.max(this.seq, seq);
    const known = this.#held.slice(at, at + part.length);
    const other = !part.startsWith(known);
    if (other || known.length < part.length) this.#held = '';
    return other ? this.base + at : Infinity;
  }

  end({ seq, status }) {
    if (!isOffset(seq) || typeof status !== 'string') throw misfit('malformed', 'an end frame lacks its fields');
    if (seq > this.base + this.#text.length) throw misfit('short', 'the stream ended before its text had come');
    this.seq = 0;
    this.durable = seq;
    return Infinity;
  }
}
