// 09-online-service — one replica of a web service that ranks items for users, and learns from what they click. Several
// share the tables.
//   GET  /rank?user=5&item=1&item=2&item=3              the items, the likeliest first
//   POST /learn {"user": "5", "item": "2", "clicked": true}
//   GET  /live, /ready                                  for what watches over the process; neither learns anything

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type Embedding, isWeighbridgeError, type Session } from "weighbridge";

const DIM = 8;
const ITEMS_MAX = 100;
const BODY_BYTES_MAX = 1024;
const KEY_LENGTH_MAX = 100;
/** A page does not wait for a server that is away. */
const WAIT = { timeoutMs: 500 };
const END_MS_MAX = 5000;

type Tables = { readonly users: Embedding; readonly items: Embedding };

/** What is answered with this status instead of a result. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

let session: Session | undefined;
let tables: Promise<Tables> | undefined;
let isEnding = false;

/** The tables, made if they are not there. */
async function openTables(from: Session): Promise<Tables> {
  const table = { dim: DIM, optimizer: { type: "adagrad", learningRate: 0.1 } } as const;
  const [users, items] = await Promise.all([
    from.embedding("users", { ...table, init: { type: "normal", std: 0.1, seed: 1 }, ...WAIT }),
    from.embedding("items", { ...table, init: { type: "normal", std: 0.1, seed: 2 }, ...WAIT }),
  ]);
  return { users, items };
}

/**
 * They are lost with a server that is started again without its checkpoint; the first request after that makes them
 * anew.
 */
async function ready(): Promise<Tables> {
  if (session === undefined || isEnding) throw new Refusal(503, "not ready");
  tables ??= openTables(session);
  try {
    return await tables;
  } catch (error) {
    tables = undefined;
    throw error;
  }
}

/** How likely the user is to like the item, given the row of each. */
function liking(user: Float32Array, item: Float32Array): number {
  const dot = user.reduce((sum, value, k) => sum + value * (item[k] ?? 0), 0);
  return 1 / (1 + Math.exp(-dot));
}

async function rank(user: string, list: readonly string[]): Promise<readonly { item: string; liking: number }[]> {
  const { users, items } = await ready();
  const [of, rows] = await Promise.all([users.pull([user], WAIT), items.pull(list, WAIT)]);
  return list.map((item, i) => ({ item, liking: liking(of, items.row(rows, i)) })).sort((a, b) => b.liking - a.liking);
}

async function learn(user: string, item: string, clicked: boolean): Promise<void> {
  const { users, items } = await ready();
  const [of, row] = await Promise.all([users.pull([user], WAIT), items.pull([item], WAIT)]);
  const error = liking(of, row) - Number(clicked);
  const [forUser, forItem] = [row.map((value) => error * value), of.map((value) => error * value)];
  // The servers apply Adagrad.
  await Promise.all([users.push([user], forUser, WAIT), items.push([item], forItem, WAIT)]);
}

/** A key is any string: the table hashes it. */
function keyOf(text: unknown, name: string): string {
  if (typeof text === "string" && text.length >= 1 && text.length <= KEY_LENGTH_MAX && text.isWellFormed()) return text;
  throw new Refusal(400, `${name} must be a text of 1 to ${KEY_LENGTH_MAX} letters`);
}

async function bodyOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const chunks: Buffer[] = [];
  let byteCount = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    byteCount += chunk.length;
    if (byteCount <= BODY_BYTES_MAX) chunks.push(chunk);
  }
  if (byteCount > BODY_BYTES_MAX) throw new Refusal(413, `a body has at most ${BODY_BYTES_MAX} bytes`);
  try {
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
    if (typeof body === "object" && body !== null) return body as Readonly<Record<string, unknown>>;
  } catch {
    // told below, as anything else that is no object
  }
  throw new Refusal(400, "the body is a JSON object");
}

async function answerRank(_: IncomingMessage, query: URLSearchParams): Promise<unknown> {
  const list = query.getAll("item").map((item) => keyOf(item, "item"));
  if (list.length === 0 || list.length > ITEMS_MAX) throw new Refusal(400, `there are 1 to ${ITEMS_MAX} items`);
  if (query.getAll("user").length !== 1) throw new Refusal(400, "there is one user");
  return await rank(keyOf(query.get("user"), "user"), list);
}

async function answerLearn(request: IncomingMessage): Promise<unknown> {
  const { user, item, clicked } = await bodyOf(request);
  if (typeof clicked !== "boolean") throw new Refusal(400, "clicked is true or false");
  await learn(keyOf(user, "user"), keyOf(item, "item"), clicked);
  return { learned: true };
}

/** Ready is who can read: a pull makes no row, whatever the key. */
async function answerReady(): Promise<unknown> {
  const { users, items } = await ready();
  await Promise.all([users.pull(["any"], WAIT), items.pull(["any"], WAIT)]);
  return { ready: true };
}

type Route = { readonly method: string; readonly answer: (request: IncomingMessage, query: URLSearchParams) => Promise<unknown> };
const ROUTES: ReadonlyMap<string, Route> = new Map([
  ["/rank", { method: "GET", answer: answerRank }],
  ["/learn", { method: "POST", answer: answerLearn }],
  ["/ready", { method: "GET", answer: answerReady }],
  ["/live", { method: "GET", answer: async () => ({ live: true }) }],
]);

/** The status and the text of what went wrong. The client learns nothing of our insides; the log does. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  console.error(error);
  if (!isWeighbridgeError(error)) return new Refusal(500, "an error of ours");
  if (error.code === "UNKNOWN_PARAMETER") tables = undefined; // a server lost them: the next request makes them anew
  // This process is no replica any more: start another.
  if (error.code === "FENCED" || error.code === "CLOSED") void end(1);
  const isAway = error.retryable || ["UNKNOWN_PARAMETER", "FENCED", "CLOSED", "DEADLINE", "LINK_LOST", "NODE_DEAD"].includes(error.code);
  return isAway ? new Refusal(503, "try again later") : new Refusal(500, "an error of ours");
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const send = (status: number, body: unknown): void => {
    if (status === 503) response.setHeader("retry-after", "1");
    if (isEnding) response.setHeader("connection", "close");
    response.writeHead(status, { "content-type": "application/json" }).end(`${JSON.stringify(body)}\n`);
  };
  try {
    const url = URL.parse(request.url ?? "", "http://localhost");
    const route = url === null ? undefined : ROUTES.get(url.pathname);
    if (url === null || route === undefined) throw new Refusal(404, "there is no such page");
    if (request.method !== route.method) {
      response.setHeader("allow", route.method);
      throw new Refusal(405, `this is ${route.method} alone`);
    }
    send(200, await route.answer(request, url.searchParams));
  } catch (error) {
    const { status, message } = refusalOf(error);
    send(status, { error: message });
  }
}

const web = createServer((request, response) => void answer(request, response));
web.listen(Number(process.argv[2]), "127.0.0.1"); // before the cluster is there: clients get 503

/** Takes no more requests, answers those that are there, leaves the cluster; the other replicas go on. */
async function end(exitCode: number): Promise<void> {
  if (isEnding) return;
  isEnding = true;
  const closed = new Promise<void>((resolve) => web.close(() => resolve()));
  setTimeout(() => web.closeAllConnections(), END_MS_MAX).unref();
  await closed;
  await session?.close({ barrier: false, timeoutMs: END_MS_MAX }).catch(console.error);
  process.exit(exitCode);
}
process.once("SIGTERM", () => void end(0));
process.once("SIGINT", () => void end(0));

session = await connect({ role: "guest" }); // where the scheduler is, the environment says
await ready().catch(refusalOf); // the next request tries again
console.log(`replica ${session.rank} listens on ${process.argv[2]}`);
