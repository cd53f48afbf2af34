// idle-memory — what a server and a worker cost that do nothing: resident memory some seconds after they registered, as
// users' processes are started: the scheduler and the server by the command, the worker by a script that connects. From
// the sources, or from the package as it is built.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "../src/node/launcher/free-port.ts";
import type { ClusterMemory } from "./our-cluster.ts";

export type Packaging = "sources" | "built";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const WORKER = fileURLToPath(new URL("./idle-worker.mjs", import.meta.url));
const IDLE_MS = 10_000;
const REGISTERED = "registered";
const REGISTRATION_TIMEOUT_MS = 30_000;

/** Throws when the worker does not come to register. The processes are gone afterwards. */
export async function idleMemory(packaging: Packaging): Promise<ClusterMemory> {
  if (packaging === "built") build();
  const root = packaging === "built" ? join(ROOT, "dist") : ROOT;
  const door = packaging === "built" ? join(root, "lib/weighbridge.js") : join(root, "src/node/weighbridge.ts");
  const port = String(await freePort("127.0.0.1"));
  const env = {
    ...process.env,
    NODE_OPTIONS: "--conditions=@weighbridge/source",
    DMLC_PS_ROOT_PORT: port,
    DMLC_NUM_SERVER: "1",
    DMLC_NUM_WORKER: "1",
  };
  const command = (...args: string[]): ChildProcess =>
    spawn(process.execPath, [join(root, "bin/weighbridge.mjs"), ...args, "--log-level", "error"], { env, stdio: "ignore" });
  const scheduler = command("scheduler");
  const server = command("server");
  const worker = spawn(process.execPath, [WORKER, door], { env: { ...env, DMLC_ROLE: "worker" }, stdio: ["pipe", "pipe", "inherit"] });
  try {
    await registered(worker);
    await sleep(IDLE_MS);
    return { rssServerMb: rssMb(server), rssWorkerMb: rssMb(worker) };
  } finally {
    for (const child of [worker, server, scheduler]) child.kill("SIGKILL");
  }
}

function build(): void {
  const { status } = spawnSync(process.execPath, [join(ROOT, "scripts/build.mjs")], { stdio: ["ignore", "ignore", "inherit"] });
  if (status !== 0) throw new Error("the package could not be built");
}

async function registered(worker: ChildProcess): Promise<void> {
  const deadline = AbortSignal.timeout(REGISTRATION_TIMEOUT_MS);
  await new Promise<void>((resolve, reject) => {
    deadline.addEventListener("abort", () => reject(new Error(`the idle worker did not register within ${REGISTRATION_TIMEOUT_MS} ms`)));
    worker.once("exit", (code) => reject(new Error(`the idle worker ended early (exit code ${code})`)));
    worker.stdout?.on("data", (chunk: Buffer) => {
      if (chunk.toString().includes(REGISTERED)) resolve();
    });
  });
}

/** As the system counts it; Linux only. */
function rssMb({ pid }: ChildProcess): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return (Number(kib) * 1024) / 1e6;
}
