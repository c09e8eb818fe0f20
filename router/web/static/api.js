// What the page asks of its node, and the token it asks with.

import { RillkeepError } from '/web/client/rillkeep.js';

const KEY = 'rillkeep.token';
const TIMEOUT = 10000; // ms

let token = read();

function read() {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    return ''; // storage may be forbidden: the token then lasts as long as the page
  }
}

export const currentToken = () => token;

/** Keeps the token for this tab; '' forgets it. */
export function useToken(value) {
  token = value;
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // see read
  }
}

// ask throws a RillkeepError; one of the status 0 is no answer at all.
async function ask(method, path) {
  const headers = { accept: 'application/json' };
  if (token) headers.authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { method, headers, cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT) });
  } catch {
    throw new RillkeepError({ code: 'unreachable', message: 'the node does not answer' });
  }
  if (!answer.ok) throw await RillkeepError.of(answer);
  return answer.json();
}

const path = (id) => `/v1/streams/${encodeURIComponent(id)}`;

export const list = async (query) => (await ask('GET', `/v1/streams?${new URLSearchParams(query)}`)).streams;
export const cancel = (id) => ask('POST', `${path(id)}/cancel`);
export const cluster = () => ask('GET', '/v1/cluster');
export const play = (id) => ask('POST', `/demo/streams/${encodeURIComponent(id)}`);

// What only rillkeep dev answers.
export const nodes = () => ask('GET', '/dev/nodes');
export const act = (node, action) => ask('POST', `/dev/nodes/${encodeURIComponent(node)}/${action}`);

/** The command that follows a stream in a terminal; it names no token. */
export function curl(id) {
  const url = (location.origin + path(id)).replaceAll("'", '%27');
  const auth = token ? ' -H "Authorization: Bearer $RILLKEEP_TOKEN"' : '';
  return `curl -N${auth} '${url}'`;
}

/** An error of the node in words. */
export function words({ status, message }) {
  switch (status) {
    case 0: return 'The node does not answer.';
    case 401: return 'This node asks for a token.';
    case 403: return 'Your token does not allow this.';
    case 404: return 'There is no such stream.';
    case 503: return `The node is busy: ${message}.`;
    default: return `That did not work: ${message}.`;
  }
}
