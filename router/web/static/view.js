// Shows a growing text, to eyes and to screen readers.

const BLOCK = 2048; // units after which the next line begins a new block
const PACE = 4000; // ms between two passages read out

/**
 * Paints a text into an element, as text and never as markup, at most once a
 * frame. What is there already stays: only what is new is added, in blocks, so
 * that a long text is not laid out again for each token.
 */
export class TextView {
  #element;
  #wanted = '';
  #painted = '';
  #scheduled = false;

  constructor(element) {
    this.#element = element;
    // A hidden page gets no animation frames.
    document.addEventListener('visibilitychange', () => this.#paint());
  }

  show(text) {
    this.#wanted = text;
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (document.hidden) setTimeout(() => this.#paint(), 250);
    else requestAnimationFrame(() => this.#paint());
  }

  #paint() {
    this.#scheduled = false;
    if (this.#wanted === this.#painted) return;
    const box = this.#element;
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    if (!this.#wanted.startsWith(this.#painted)) {
      box.replaceChildren();
      this.#painted = '';
    }
    this.#append(this.#wanted.slice(this.#painted.length));
    this.#painted = this.#wanted;
    if (atEnd) box.scrollTop = box.scrollHeight;
  }

  #append(text) {
    while (text) {
      const last = this.#element.lastElementChild;
      const room = BLOCK - (last?.textContent.length ?? 0);
      const line = text.indexOf('\n', Math.max(0, room - 1)) + 1;
      const piece = line ? text.slice(0, line) : text;
      if (last && !last.dataset.full) last.firstChild.appendData(piece);
      else this.#element.append(block(piece));
      if (line) this.#element.lastElementChild.dataset.full = 'true';
      text = text.slice(piece.length);
    }
  }
}

function block(text) {
  const div = document.createElement('div');
  div.append(document.createTextNode(text));
  return div;
}

/**
 * Tells a screen reader what goes on, without talking over itself: news at
 * once, the text sentence by sentence and no more often than every few seconds.
 */
export class Announcer {
  #element;
  #text = '';
  #said = 0;
  #timer = 0;

  constructor(element) {
    this.#element = element;
  }

  say(words) {
    this.#element.textContent = words;
  }

  /** Begins with a text that is there already, which is not read out. */
  begin(text) {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#text = text;
    this.#said = text.length;
  }

  follow(text) {
    this.#text = text;
    this.#said = Math.min(this.#said, text.length);
    this.#timer ||= setTimeout(() => this.#speak(), PACE);
  }

  /** Ends with what is left of the text and a last word. */
  end(text, words) {
    clearTimeout(this.#timer);
    const rest = text.slice(this.#said).trim();
    this.begin(text);
    this.say(rest ? `${rest} ${words}` : words);
  }

  #speak() {
    this.#timer = 0;
    const fresh = this.#text.slice(this.#said);
    const sentences = /^[^]*[.!?。؟:\n](?=\s|$)/.exec(fresh)?.[0] ?? '';
    this.#said += sentences.length;
    if (sentences.trim()) this.say(sentences.trim());
  }
}
