// pulse.test — Goal: the thread of a process speaks for it while its loop stands still, and answers for a scheduler; it
// keeps no process alive.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { Worker } from "node:worker_threads";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { pulseFrames } from "../cluster/pulse.ts";
import { HEARTBEAT } from "../contracts/control.ts";
import { toFailure } from "../wire/failure.ts";
import { FrameHeader, HEADER_BYTES, Kind } from "../wire/frame.ts";
import { jsonFrame } from "../wire/json-body.ts";
import { keepPulse, processPulse } from "./pulse.ts";

const EVERY_MS = 10;

/** Nothing else of this process runs meanwhile. */
function compute(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20 * EVERY_MS);
}

test("while the loop stands still a hello leaves, then beats that count on, each with a longer time; when it turns the link ends", async () => {
  const { promise: ended, resolve } = Promise.withResolvers<Buffer>();
  const server = createServer((socket: Socket) => {
    const chunks: Buffer[] = [];
    socket.on("data", (bytes) => chunks.push(bytes));
    socket.on("end", () => {
      socket.end();
      resolve(Buffer.concat(chunks));
    });
  });
  await new Promise<void>((listening) => void server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as { port: number };
  const frames = pulseFrames({ job: "job/1", node: 9, incarnation: 1, token: "t" });
  const pulse = processPulse(SILENT_LOG);
  const hush = pulse.speak({ node: 9, addresses: [`tcp://127.0.0.1:${port}`], everyMs: EVERY_MS, frames });
  const answering = await pulse.answer("tcp://127.0.0.1:0", { token: "p", everyMs: EVERY_MS }); // by now it runs
  compute();
  const said = await ended;
  assert.ok(said.subarray(0, frames.hello.length).equals(frames.hello));
  const beats: { readonly kind: number; readonly request: number; readonly busyMs: number }[] = [];
  for (let at = frames.hello.length; at < said.length; at += frames.beat.length) {
    const body = JSON.parse(said.toString("utf8", at + HEADER_BYTES, at + frames.beat.length).replaceAll("\0", "")) as {
      loopBusyMs: number;
    };
    beats.push({ kind: said[at + 3]!, request: said.readUInt32LE(at + 16), busyMs: body.loopBusyMs });
  }
  assert.ok(beats.length > 1, `${beats.length} beats`);
  assert.ok(beats.every(({ kind, request }, i) => kind === Kind.REQUEST && request === i + 1));
  assert.ok(beats.every(({ busyMs }, i) => i === 0 || busyMs > beats[i - 1]!.busyMs));
  answering.close();
  hush();
  server.close();
});

test("a pulse that answers shows its token and says for how long the loop has been busy, and which nodes are", async () => {
  const pulse = processPulse(SILENT_LOG);
  const answering = await pulse.answer("tcp://127.0.0.1:0", { token: "p", everyMs: EVERY_MS });
  const { token, busy } = await pulse.ask(answering.address, { timeoutMs: 5000 });
  assert.deepEqual([token, busy], ["p", []]);
  answering.close();
});

test("nobody answers where no pulse is", async () => {
  const pulse = processPulse(SILENT_LOG);
  const answering = await pulse.answer("tcp://127.0.0.1:0", { token: "p", everyMs: EVERY_MS });
  answering.close();
  const lost = pulse.ask("tcp://127.0.0.1:1", { timeoutMs: 5000 });
  await assert.rejects(lost, { code: "LINK_LOST" });
});

test("a process whose nodes are spoken for ends when nothing else keeps it, and not before its scheduler can be answered for", () => {
  const module = new URL("./pulse.ts", import.meta.url).href;
  const program = `const { processPulse } = await import(${JSON.stringify(module)});
    const frames = { hello: new Uint8Array(8), beat: new Uint8Array(128) };
    const pulse = processPulse({ warn: console.log });
    await pulse.answer("tcp://127.0.0.1:0", { token: "p", everyMs: 10 });
    pulse.speak({ node: 9, addresses: ["tcp://127.0.0.1:1"], everyMs: 10, frames });
    console.log("done");`;
  const { status, stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { timeout: 20_000, encoding: "utf8" });
  assert.deepEqual([status, stdout], [0, "done\n"]);
});

/** A thread that speaks for nodes 20, 21 …, one at each of these ports, and whose loop stands still then. */
function busyThread(t: TestContext, ports: readonly number[]): Worker {
  const program = `import(${JSON.stringify(new URL("./pulse.ts", import.meta.url).href)}).then(({ processPulse }) => {
    const speak = (port, index) => {
      const frames = { hello: new Uint8Array(8).fill(7), beat: new Uint8Array(128) };
      processPulse({}).speak({ node: 20 + index, addresses: ["tcp://127.0.0.1:" + port], everyMs: ${EVERY_MS}, frames });
    };
    ${JSON.stringify(ports)}.forEach(speak);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });`;
  const { release, optionsOfThread } = keepPulse(SILENT_LOG);
  const thread = new Worker(program, { eval: true, ...optionsOfThread() });
  t.after(async () => {
    await thread.terminate();
    release();
  });
  return thread;
}

/** A port of this process, until the test ends. */
async function listening(t: TestContext, taken: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    taken(socket);
  });
  await new Promise<void>((listens) => void server.listen(0, "127.0.0.1", listens));
  t.after(() => server.close());
  return (server.address() as { port: number }).port;
}

test("a node on another thread of the process is spoken for by the same pulse, without the main loop (ProcessPulse.T1)", async (t) => {
  const { promise: heard, resolve } = Promise.withResolvers<Buffer>();
  busyThread(t, [await listening(t, (socket) => void socket.once("data", resolve))]);
  assert.deepEqual([...(await heard).subarray(0, 8)], Array<number>(8).fill(7));
});

test("a pulse that is refused for good hangs up and speaks for that node no more; another refusal it tries again (Pulse.E4)", async (t) => {
  let [links, refusals] = [0, 0];
  const [hungUp, triedAgain] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const refuses = (isFinal: boolean) => (socket: Socket) => {
    const error = new WeighbridgeError("FENCED", `it says "retryable":${!isFinal}`, { retryable: !isFinal });
    const refusal = jsonFrame(new FrameHeader().reset(Kind.FAILURE, HEARTBEAT.id), toFailure(error));
    if (isFinal) links++;
    if (isFinal) socket.on("end", hungUp.resolve);
    socket.on("data", () => {
      socket.write(refusal.subarray(0, -20)); // in two pieces
      setImmediate(() => socket.write(refusal.subarray(-20)));
      if (!isFinal && --refusals === 0) triedAgain.resolve();
    });
  };
  const [final, other] = [await listening(t, refuses(true)), await listening(t, refuses(false))];
  busyThread(t, [final, other]);
  await hungUp.promise;
  refusals = 3;
  await triedAgain.promise;
  assert.equal(links, 1);
});

test("a pulse falls silent for the nodes of a thread that has ended, and speaks on for those of others (ProcessPulse.T3)", async (t) => {
  const spoken = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const [ends, more] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let beatsLeft = 0;
  const first = await listening(t, (socket) => void socket.on("data", spoken[0]!.resolve).on("end", ends.resolve));
  const second = await listening(t, (socket) => {
    socket.on("data", () => {
      spoken[1]!.resolve();
      if (--beatsLeft === 0) more.resolve();
    });
  });
  const [crashes] = [busyThread(t, [first]), busyThread(t, [second])];
  await Promise.all(spoken.map(({ promise }) => promise));
  await crashes.terminate();
  await ends.promise;
  beatsLeft = 3;
  await more.promise;
});

test("what Node leaves behind when it starts the thread is given back: a third of its heap", () => {
  // In a process of its own: flags for the heap of this one would hold for the thread, too.
  const program = `const { startPulseThread } = await import(${JSON.stringify(new URL("./pulse.ts", import.meta.url).href)});
    const thread = startPulseThread();
    await new Promise((online) => thread.once("online", online));
    const heapBytes = [];
    do {
      await new Promise((later) => setTimeout(later, 50));
      heapBytes.push((await thread.getHeapStatistics()).total_physical_size);
    } while (heapBytes.at(-1) > 0.7 * Math.max(...heapBytes) && heapBytes.length < 400);
    await thread.terminate();
    console.log(heapBytes.at(-1) <= 0.7 * Math.max(...heapBytes) ? "given back" : heapBytes.join(" "));`;
  const { status, stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { timeout: 60_000, encoding: "utf8" });
  assert.deepEqual([status, stdout], [0, "given back\n"]);
});
