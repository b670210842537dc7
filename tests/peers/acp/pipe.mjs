// Lets a test drive a published ACP client for TypeScript, one JSON object a line in both directions. What is asked of
// the client comes on standard input; what it tells goes to standard output. The clients themselves are in
// `typescript_*.mjs`.
//
// In:  {"ask": n, "method", "params"}, {"tell": method, "params"}, {"take_back": n}, {"decide": k, "outcome"}, {"close": true}
// Out: {"started": pid}, {"answered": n, "result" | "error"}, {"update": params}, {"asked": k, "params"}, {"ended": {…}}

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Readable, Writable } from 'node:stream';

const told = JSON.parse(process.argv[2]);

/** Longer than any agent takes to end that ends at all. */
const PATIENCE_MS = 10_000;

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

/** What a failure shows: the members of an error response, or what the client says of its own. */
function failure(error) {
  const shown = { class: error?.constructor?.name, message: String(error?.message ?? error) };
  if (typeof error?.code === 'number') shown.code = error.code;
  if (error?.data !== undefined) shown.data = error.data;
  return shown;
}

/**
 * Starts the agent, connects the client and does as it is told.
 *
 * `connect` gets the two byte streams and the two callbacks `update(params)` and `permission(params)`, and gives
 * `request(method, params, signal)` and `notify(method, params)`.
 */
export function drive(connect) {
  const child = spawn(told.program, told.args, {
    cwd: told.cwd,
    env: told.env,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  // A broken pipe is the client's to notice.
  child.stdin.on('error', () => {});
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve({ code, signal })));

  const open = new Map();
  let asked = 0;
  const permission = (params) =>
    new Promise((resolve) => {
      asked += 1;
      open.set(asked, resolve);
      say({ asked, params });
    });
  const update = (params) => say({ update: params });
  const peer = connect({
    output: Writable.toWeb(child.stdin),
    input: Readable.toWeb(child.stdout),
    update,
    permission,
  });
  say({ started: child.pid });

  const flying = new Map();
  const ask = async ({ ask: number, method, params }) => {
    const abort = new AbortController();
    flying.set(number, abort);
    try {
      say({ answered: number, result: (await peer.request(method, params, abort.signal)) ?? null });
    } catch (error) {
      say({ answered: number, error: failure(error) });
    }
  };
  const close = async () => {
    const signals = [];
    child.stdin.end();
    const late = setTimeout(() => {
      signals.push('SIGKILL');
      child.kill('SIGKILL');
    }, PATIENCE_MS);
    const { code, signal } = await ended;
    clearTimeout(late);
    say({ ended: { code, signal, signals }, stderr });
    process.exit(0);
  };

  createInterface({ input: process.stdin }).on('line', (line) => {
    const order = JSON.parse(line);
    if (order.ask !== undefined) void ask(order);
    else if (order.tell !== undefined) void peer.notify(order.tell, order.params);
    else if (order.take_back !== undefined) flying.get(order.take_back).abort();
    else if (order.decide !== undefined) open.get(order.decide)({ outcome: order.outcome });
    else if (order.close) void close();
    else throw new Error(`no such order: ${line}`);
  });
}
