// Goal: two nodes of one host agree on memory in their hellos, between two frames; nodes that do not know the field, or
// are elsewhere, see nothing of it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBytes } from "../base/bytes.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { ChannelStage } from "../testing/channel-stage.ts";
import { StubLink } from "../testing/stub-link.ts";
import type { MemoryOffer, MemoryUpgrade } from "../transport/transport.ts";
import { FrameHeader, Kind } from "../wire/frame.ts";
import type { Hello } from "../wire/hello.ts";
import { jsonFrame } from "../wire/json-body.ts";
import { PeerMetrics } from "./channel-host.ts";
import { Connection } from "./connection.ts";
import { PlainReadBuffers } from "./request-assembly.ts";

const OFFER: MemoryOffer = { path: "/proc/9/fd/9", byteCount: 4096, nonce: "00" };
const DIALER: Hello = { job: "job", kind: "worker", node: 9, incarnation: 1, expects: 1 };
const ACCEPTOR: Hello = { job: "job", kind: "server", node: 8, incarnation: 1, expects: 1 };

/** A link that could share memory, and notes what it is asked to do. */
class SharingLink extends StubLink {
  readonly steps: string[] = [];
  /** What the system does for it. */
  offered: MemoryOffer | undefined = OFFER;
  proof: string | undefined = "11";
  readonly upgrade: MemoryUpgrade = {
    host: "host",
    isShared: false,
    offer: () => this.#step("offer", this.offered),
    hold: () => this.#step("hold", undefined),
    settle: (proof) => this.#step(`settle ${proof}`, undefined),
    take: ({ path }) => this.#step(`take ${path}`, this.proof),
    begin: () => this.#step("begin", undefined),
  };

  #step<T>(name: string, result: T): T {
    this.steps.push(`${name} after ${this.take().length}`);
    return result;
  }
}

class HandshakeStage {
  readonly link = new SharingLink();
  readonly hellos: unknown[] = [];
  readonly connection: Connection;

  constructor(reply: Hello | undefined) {
    const { channel, clock, link } = new ChannelStage({ handler: { handle: () => assert.fail("no request") } });
    channel.detach(link);
    const host = {
      clock,
      metrics: new PeerMetrics(),
      readBuffers: new PlainReadBuffers(),
      helloTimeoutMs: 1000,
      packageVersion: "",
      helloCame: () => ({ channel, reply }),
      refused: () => assert.fail("nobody refuses"),
      ended: () => {},
    };
    this.connection = new Connection(host, this.link);
  }

  /** One read of the link. */
  read(hello: Hello, more: Uint8Array = new Uint8Array(0)): void {
    const bytes = joinBytes([jsonFrame(new FrameHeader().reset(Kind.HELLO, 0), hello), more]);
    this.connection.reader.view().set(bytes);
    this.connection.reader.received(bytes.length);
  }

  /** What the hellos that were written since the last look say about memory. */
  said(): unknown[] {
    return this.link.take().map(({ payload }) => (JSON.parse(new TextDecoder().decode(payload)) as Hello).sharedMemory);
  }
}

test("a dialer names its host, and takes what it is offered: its answer is the last it writes to the socket", () => {
  const stage = new HandshakeStage(undefined);
  stage.connection.sendHello(DIALER);
  assert.deepEqual(stage.said(), [{ host: "host" }]);
  stage.read({ ...ACCEPTOR, sharedMemory: { offer: OFFER } });
  assert.deepEqual(stage.link.steps, ["take /proc/9/fd/9 after 0", "begin after 1"]);
});

test("a dialer that cannot take it says so, and goes on as before", () => {
  const stage = new HandshakeStage(undefined);
  stage.connection.sendHello(DIALER);
  stage.link.proof = undefined;
  stage.said();
  stage.read({ ...ACCEPTOR, sharedMemory: { offer: OFFER } });
  assert.deepEqual(stage.link.steps, ["take /proc/9/fd/9 after 0"]);
  assert.deepEqual(stage.said(), [{}]);
});

test("an acceptor offers memory to a dialer of its host, and holds what it writes until the answer", () => {
  for (const [proof, settled] of [
    ["11", "settle 11 after 0"],
    [undefined, "settle undefined after 0"],
  ] as const) {
    const stage = new HandshakeStage(ACCEPTOR);
    stage.read({ ...DIALER, sharedMemory: { host: "host" } });
    assert.deepEqual(stage.link.steps, ["offer after 0", "hold after 1"]);
    stage.read({ ...DIALER, sharedMemory: { proof } });
    assert.deepEqual(stage.link.steps.slice(2), [settled]);
  }
});

test("nobody offers memory to a dialer of another host, or to one that does not name its own; nor where there is none", () => {
  for (const [sharedMemory, offered] of [
    [undefined, OFFER],
    [{}, OFFER],
    [{ host: "elsewhere" }, OFFER],
    [{ host: "host" }, undefined],
  ] as const) {
    const stage = new HandshakeStage(ACCEPTOR);
    stage.link.offered = offered;
    stage.read(sharedMemory === undefined ? DIALER : { ...DIALER, sharedMemory });
    assert.deepEqual(stage.said(), [undefined]);
    assert.equal(stage.link.steps.includes("hold after 1"), false);
  }
});

test("nothing may lie behind a hello that ends the use of the socket (Connection.H7)", () => {
  const isBad = (thrown: unknown): boolean => isWeighbridgeError(thrown, "BAD_FRAME");
  const acceptor = new HandshakeStage(ACCEPTOR);
  acceptor.read({ ...DIALER, sharedMemory: { host: "host" } });
  assert.throws(() => acceptor.read({ ...DIALER, sharedMemory: { proof: "11" } }, new Uint8Array(8)), isBad);
  const dialer = new HandshakeStage(undefined);
  dialer.connection.sendHello(DIALER);
  dialer.read({ ...ACCEPTOR, sharedMemory: { offer: OFFER } }, new Uint8Array(8));
  assert.equal(dialer.link.isClosed, true, "it was refused");
  assert.equal(dialer.link.steps.length, 0);
});

test("a second hello without an offer is refused, as ever", () => {
  const stage = new HandshakeStage(ACCEPTOR);
  stage.read(DIALER);
  assert.throws(() => stage.read({ ...DIALER, sharedMemory: { proof: "11" } }), /second hello/);
});
