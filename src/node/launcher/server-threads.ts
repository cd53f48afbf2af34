// server-threads — runs several server nodes in one process, each on a thread of its own with its own event loop, arena
// and port. They share nothing; each reads its configuration from its environment, as a process would. Their lines
// carry the tag of their node.

import { inspect } from "node:util";
import { Worker } from "node:worker_threads";
import { reasonOf } from "../../base/errors.ts";
import { nodeEnvironment } from "../config/config-environment.ts";
import type { NodeConfig } from "../config/node-config.ts";
import { LEAVE_MESSAGE, onEndSignal, PLANNED_END } from "../end-signal.ts";
import { keepPulse } from "../pulse.ts";
import { textLog } from "../text-log.ts";
import { LineStream, nodeTag } from "./node-output.ts";
import { errorText, exitCodeFor, isOurs } from "./process-errors.ts";

export type ThreadScript = {
  /** The module each thread runs. */
  readonly path: string;
  readonly args: readonly string[];
};

/**
 * Runs `config.threads` nodes until all of them have ended. The first that fails ends the others; its error is printed
 * by then. Returns an exit code.
 */
export async function runServerThreads(config: NodeConfig, { path, args }: ThreadScript): Promise<number> {
  const pulse = keepPulse(textLog({ level: config.logLevel, who: () => "server" }));
  const threads = threadConfigs(config).map((own, index) => {
    const env = { ...process.env, ...nodeEnvironment(own) };
    const tag = own.rank === undefined ? `[server thread ${index}]` : nodeTag("server", own.rank);
    const worker = new Worker(path, { argv: [...args], env, stdout: true, stderr: true, ...pulse.optionsOfThread() });
    worker.stdout.pipe(new LineStream((line) => `${tag} ${line}`)).pipe(process.stdout, { end: false });
    worker.stderr.pipe(new LineStream((line) => `${tag} ${line}`)).pipe(process.stderr, { end: false });
    return { tag, worker };
  });
  const ends = threads.map(({ tag, worker }) => ended(worker, tag));
  const planned = new Set<Worker>();
  for (const { worker } of threads)
    worker.on("message", (message) => {
      if (message === PLANNED_END) planned.add(worker);
    });
  const stopListening = onEndSignal(async () => {
    for (const { worker } of threads) worker.postMessage(LEAVE_MESSAGE);
    await Promise.all(ends);
    return planned.size === threads.length;
  }, config);
  try {
    await Promise.all(ends);
    return 0;
  } catch (thrown) {
    process.stderr.write(`${reasonOf(thrown)}\n`);
    return exitCodeFor(thrown instanceof Error ? (thrown.cause ?? thrown) : thrown);
  } finally {
    stopListening();
    await Promise.all(threads.map(({ worker }) => worker.terminate()));
    pulse.release();
  }
}

/** One configuration per node: the next rank and, when a port was chosen, the next port. */
function threadConfigs(config: NodeConfig): NodeConfig[] {
  const { threads, rank, listenPort } = config;
  return Array.from({ length: threads }, (_, index) => ({
    ...config,
    threads: 1,
    rank: rank === undefined ? undefined : rank + index,
    listenPort: listenPort === 0 ? 0 : listenPort + index,
  }));
}

async function ended(worker: Worker, tag: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  worker.once("error", (error) => reject(new Error(tagged(tag, isOurs(error) ? errorText(error) : inspect(error)), { cause: error })));
  worker.once("exit", (code) => {
    if (code === 0) resolve();
    else reject(new Error(`${tag} ended with exit code ${code}`));
  });
  await promise;
}

function tagged(tag: string, text: string): string {
  return text.replaceAll(/^/gm, `${tag} `);
}
