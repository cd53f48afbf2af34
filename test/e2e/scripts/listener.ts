// listener — a worker and a guest of one cluster in one process, each with a logger of its own: it prints the worker's
// events as they come, and at the end what the loggers got. The first listener of each for a lost server throws.

import { once } from "node:events";
import { connect, type Logger, type Session, type SessionEventName } from "weighbridge";

const EVENTS: readonly SessionEventName[] = ["serverlost", "serverback", "rejoined", "leaving", "placementchanged"];
const [address = ""] = process.argv.slice(2);

/** As pino's, with every level on. */
function recorder(): Logger & { readonly lines: string[] } {
  const lines: string[] = [];
  const at =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  return { lines, level: "trace", debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

async function open(role: "worker" | "guest"): Promise<{ readonly session: Session; readonly lines: readonly string[] }> {
  const logger = recorder();
  const options = { role, logger, timeoutMs: 60_000 } as const;
  // The worker's counts are those of the environment: an address would have the scheduler tell them.
  const session = role === "guest" ? await connect(address, options) : await connect({ schedulers: new URL(address).host, ...options });
  return { session, lines: logger.lines };
}

const [worker, guest] = await Promise.all([open("worker"), open("guest")]);
const { session } = worker;
for (const { session: own } of [worker, guest])
  own.addEventListener("serverlost", () => {
    throw new Error(`no such gauge as ${own.rank}`);
  });
for (const name of EVENTS) session.addEventListener(name, (event) => console.log(`event ${JSON.stringify(event)}`));
const count = await guest.session.embedding("count", { dim: 1, optimizer: { type: "sum" } });
await count.push([1], Float32Array.of(1));
console.log("listening");
process.stdin.resume();
await once(process.stdin, "end");
await guest.session.close();
await session.close();
for (const line of worker.lines) console.log(`worker: ${line}`);
for (const line of guest.lines) console.log(`guest: ${line}`);
