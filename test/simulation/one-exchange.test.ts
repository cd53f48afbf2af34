// Goal: what a step of a worker has for a server travels as one frame, and so does what comes back for it, whatever the
// number of its tensors; large tensors go on their own; and a worker that waits for its push before it ends its clock
// gets its acknowledgement (docs/decisions/0097).

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import type { Link, LinkReader, Transport } from "../../src/transport/transport.ts";
import { FrameHeader, HEADER_BYTES, Kind, paddedBytes } from "../../src/wire/frame.ts";
import { decodeHeader } from "../../src/wire/frame-reader.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import { idOf, roleOf } from "../../src/wire/node-id.ts";
import type { Tensor } from "../../src/worker/tensor.ts";

const TENSORS = 10;
const SIZE = 100;

/** Which frames of functions were written, by their senders, as "REQUEST BUNDLE 1,234". */
class Frames {
  readonly #written: string[] = [];

  of(sender: string, transport: Transport): Transport {
    const tapped = (link: Link): Link => ({
      remote: link.remote,
      write: (chunks, flushed) => {
        this.#note(sender, Buffer.concat(chunks));
        link.write(chunks, flushed);
      },
      pause: () => link.pause(),
      resume: () => link.resume(),
      close: () => link.close(),
      destroy: () => link.destroy(),
    });
    const tappedReader = (open: (link: Link) => LinkReader) => (link: Link) => open(tapped(link));
    return {
      listen: async (address, accept) => await transport.listen(address, tappedReader(accept)),
      connect: async (address, open, options) => tapped(await transport.connect(address, tappedReader(open), options)),
    };
  }

  /** Those since the last time. */
  take(): readonly string[] {
    return this.#written.splice(0);
  }

  #note(sender: string, bytes: Buffer): void {
    const words = new Uint32Array(new Uint8Array(bytes).buffer);
    const header = new FrameHeader();
    for (let at = 0; at < bytes.length; at += HEADER_BYTES + paddedBytes(header.payloadBytes) * (1 + header.more)) {
      decodeHeader(words, at >> 2, header);
      const isOfFunctions = header.functionId === FunctionId.FUNCTION || header.functionId === FunctionId.BUNDLE;
      const name = header.functionId === FunctionId.BUNDLE ? "BUNDLE" : "FUNCTION";
      if (isOfFunctions) this.#written.push(`${sender} ${header.kind === Kind.REQUEST ? "asks" : "answers"} ${name}`);
    }
  }
}

async function startCluster(workerCount: number): Promise<{ cluster: SimCluster; frames: Frames; sessions: Session[] }> {
  const frames = new Frames();
  const cluster: SimCluster = new SimCluster({
    ...{ seed: 1, serverCount: 2, workerCount, heartbeatIntervalMs: 100_000, heartbeatTimeoutMs: 500_000 },
    optionsOf: (node) => {
      const role = roleOf(node);
      return role === "scheduler" ? {} : { transport: frames.of(role, cluster.network.host(cluster.hostOf(node))) };
    },
  });
  await cluster.start();
  const sessions = await cluster.run(
    Promise.all(Array.from({ length: workerCount }, (_, rank) => Session.open(cluster.office(idOf("worker", rank)).node))),
  );
  return { cluster, frames, sessions };
}

async function openTensors(session: Session, size = SIZE): Promise<Tensor[]> {
  const options = { optimizer: { type: "sgd", learningRate: 1 }, consistency: "bsp", shape: [size] } as const;
  return await Promise.all(Array.from({ length: TENSORS }, (_, i) => session.tensor(`t${i}`, options)));
}

/** One step, all of it in one turn. */
async function step(session: Session, tensors: readonly Tensor[], value: number): Promise<Float32Array[]> {
  const pushed = tensors.map((tensor) => tensor.push(new Float32Array(tensor.size).fill(value)));
  session.clock();
  const pulled = tensors.map((tensor) => tensor.pull());
  await Promise.all(pushed);
  return await Promise.all(pulled);
}

test("a step of ten tensors is one frame to each server, and one back", async () => {
  const { cluster, frames, sessions } = await startCluster(1);
  const [session] = sessions as [Session];
  const tensors = await cluster.run(openTensors(session));
  await cluster.run(step(session, tensors, 1));
  frames.take();
  const values = await cluster.run(step(session, tensors, 2));
  assert.deepEqual([...frames.take()].sort(), [
    ...["server answers BUNDLE", "server answers BUNDLE", "worker asks BUNDLE", "worker asks BUNDLE"],
  ]);
  for (const each of values) assert.deepEqual(each, new Float32Array(SIZE).fill(-3));
  await cluster.finalize();
});

test("with two workers, the values of a round come as one frame to each", async () => {
  const { cluster, frames, sessions } = await startCluster(2);
  const all = await cluster.run(Promise.all(sessions.map((session) => openTensors(session))));
  const stepAll = async (value: number): Promise<Float32Array[][]> =>
    await cluster.run(Promise.all(sessions.map((session, i) => step(session, all[i]!, value * (i + 1)))));
  await stepAll(1);
  frames.take();
  const values = await stepAll(2);
  const written = [...frames.take()];
  assert.equal(written.filter((each) => each === "worker asks BUNDLE").length, 4);
  assert.deepEqual([...new Set(written)].sort(), ["server answers BUNDLE", "worker asks BUNDLE"]);
  assert.ok(written.length <= 4 + 8, `${written.length}: acknowledgements may come before the values, each of both as one frame`);
  for (const each of values.flat()) assert.deepEqual(each, new Float32Array(SIZE).fill(-9));
  await cluster.finalize();
});

test("who waits for its push before it ends the clock gets the acknowledgement, also beside a read that waits for that clock", async () => {
  const { cluster, sessions } = await startCluster(1);
  const [session] = sessions as [Session];
  const tensors = await cluster.run(openTensors(session));
  const run = async (): Promise<readonly Float32Array[]> => {
    const pulled = tensors.map(async (tensor) => {
      const pushed = tensor.push(new Float32Array(SIZE).fill(1));
      const pull = tensor.pull({ clocksAhead: 1 });
      await pushed;
      return pull;
    });
    await Promise.all(tensors.map((tensor) => tensor.push(new Float32Array(SIZE).fill(1))));
    session.clock();
    return await Promise.all(pulled);
  };
  for (const each of await cluster.run(run())) assert.deepEqual(each, new Float32Array(SIZE).fill(-2));
  await cluster.finalize();
});

test("blocks of large tensors travel on their own, small tensors beside them together", async () => {
  const { cluster, frames, sessions } = await startCluster(1);
  const [session] = sessions as [Session];
  const large = await cluster.run(session.tensor("large", { shape: [1024, 1024], optimizer: { type: "sgd", learningRate: 1 } }));
  const tensors = await cluster.run(openTensors(session));
  frames.take();
  const run = async (): Promise<Float32Array> => {
    const pushed = large.push(new Float32Array(large.size).fill(1));
    await Promise.all([pushed, step(session, tensors, 1)]);
    return await large.pull();
  };
  assert.deepEqual(await cluster.run(run()), new Float32Array(large.size).fill(-1));
  const written = frames.take();
  const asked = (name: string): number => written.filter((each) => each === `worker asks ${name}`).length;
  assert.ok(asked("FUNCTION") >= 8, "512 KiB each");
  assert.ok(asked("BUNDLE") >= 2);
  await cluster.finalize();
});
