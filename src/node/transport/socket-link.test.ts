// Goal (HandleWriter): what is written past the stream arrives as if the stream had written it: all of it, in order,
// and every end is told.

import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { HandleWriter } from "./socket-link.ts";

const BYTE = Buffer.alloc(1);

type Pair = { readonly near: net.Socket; readonly far: net.Socket };

async function connectedPair(context: TestContext): Promise<Pair> {
  const server = net.createServer({ pauseOnConnect: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[net.Socket]>;
  const near = net.connect((server.address() as net.AddressInfo).port, "127.0.0.1");
  const [[far]] = await Promise.all([accepted, once(near, "connect")]);
  context.after(() => {
    near.destroy();
    far.destroy();
    server.close();
  });
  return { near, far };
}

/** The writer that the stream's first write makes. */
function writerOf(socket: net.Socket, done: () => void): HandleWriter {
  let writer: HandleWriter | undefined;
  HandleWriter.watch(socket, done, (made) => {
    writer = made;
  });
  socket.write(Buffer.from("first"));
  assert.ok(writer !== undefined, "this version of Node has what a writer needs");
  return writer;
}

async function allOf(socket: net.Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

test("small writes are taken at once, and arrive in order behind and before the stream's own (SocketLink.S4)", async (context) => {
  const { near, far } = await connectedPair(context);
  const writer = writerOf(near, () => assert.fail("nothing had to wait"));
  assert.equal(writer.isFree, true);
  for (const text of [" a", " b", " c"]) assert.equal(writer.write(Buffer.from(text)), true);
  near.end(" last");
  assert.equal((await allOf(far)).toString(), "first a b c last");
});

test("what the system does not take at once is kept, told when it is done, and waited for by the end of the stream (SocketLink.S5)", async (context) => {
  const { near, far } = await connectedPair(context);
  let doneCount = 0;
  const writer = writerOf(near, () => doneCount++);
  const chunk = Buffer.alloc(1 << 20);
  let writeCount = 0;
  let waitCount = 0;
  while (waitCount < 3) {
    assert.ok(writeCount < 256, "a peer that does not read fills the system's buffers");
    if (!writer.write(Buffer.from(chunk.fill(writeCount++)))) waitCount++;
  }
  assert.equal(doneCount, 0);
  near.end(Buffer.from("end"));
  const bytes = await allOf(far);
  assert.equal(bytes.length, 5 + writeCount * chunk.length + 3);
  for (let i = 0; i < writeCount; i++) {
    const from = 5 + i * chunk.length;
    assert.ok(bytes.subarray(from, from + chunk.length).equals(chunk.fill(i)), `write ${i}`);
  }
  assert.equal(bytes.subarray(-3).toString(), "end");
  assert.equal(doneCount, 3);
});

test("while the stream holds bytes back nothing may pass them (SocketLink.S4)", async (context) => {
  const { near, far } = await connectedPair(context);
  const writer = writerOf(near, () => {});
  while (near.writableLength === 0) near.write(Buffer.alloc(1 << 20));
  assert.equal(writer.isFree, false);
  far.resume();
  await once(near, "drain");
  assert.equal(writer.isFree, true);
  near.destroy();
  assert.equal(writer.isFree, false);
});

test("a write that the system refuses destroys the socket with its error", async (context) => {
  const { near, far } = await connectedPair(context);
  const writer = writerOf(near, () => assert.fail("it was not written"));
  const { promise: closed, resolve } = Promise.withResolvers<Error | undefined>();
  near.on("error", () => {});
  near.on("close", () => resolve(near.errored ?? undefined));
  far.resetAndDestroy();
  await once(far, "close");
  while (writer.isFree) {
    writer.write(Buffer.alloc(1 << 16));
    await setImmediate();
  }
  assert.match((await closed)?.message ?? "", /EPIPE|ECONNRESET/);
});

test("a write that the system took in a second try is told by `done`, and its request not used for another (SocketLink.S6)", () => {
  class Request {
    oncomplete: (status: number) => void = () => {};
    isUnderWay = false;
    getAsyncId(): number {
      return this.isUnderWay ? 7 : -1;
    }
  }
  const requests = new Set<Request>();
  let isSecondTry = false;
  const write = (request: Request): number => {
    assert.equal(request.isUnderWay, false);
    request.isUnderWay = isSecondTry;
    requests.add(request);
    return 0;
  };
  const handle = { writeBuffer: write, writeQueueSize: 0 };
  let doneCount = 0;
  let writer: HandleWriter | undefined;
  const socket = { _handle: handle, writableLength: 0, writable: true } as unknown as net.Socket;
  HandleWriter.watch(
    socket,
    () => doneCount++,
    (made) => {
      writer = made;
    },
  );
  handle.writeBuffer(new Request());
  assert.ok(writer !== undefined);
  assert.equal(writer.write(BYTE), true);
  isSecondTry = true;
  assert.deepEqual([writer.write(BYTE), writer.write(BYTE)], [false, false]);
  isSecondTry = false;
  assert.equal(writer.write(BYTE), true);
  assert.equal(doneCount, 0);
  for (const request of requests) if (request.isUnderWay) request.oncomplete(0);
  assert.equal(doneCount, 2);
});

test("where the handle has not what it takes, the stream's writes are left alone", () => {
  const made = (): void => assert.fail("there is nothing to write with");
  for (const handle of [null, {}]) {
    HandleWriter.watch({ _handle: handle } as unknown as net.Socket, () => {}, made);
    assert.deepEqual(Object.keys(handle ?? {}), []);
  }
  const written: unknown[] = [];
  const handle = { writeBuffer: (request: unknown) => written.push(request) };
  HandleWriter.watch({ _handle: handle } as unknown as net.Socket, () => {}, made);
  const request = {}; // without an async id
  for (let times = 0; times < 2; times++) handle.writeBuffer(request);
  assert.deepEqual(written, [request, request]);
});
