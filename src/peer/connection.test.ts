// Goal: answers leave when that costs nobody anything: at once to who may wait for them, together to who sends in bulk.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ChannelStage, STAGE_FUNCTION } from "../testing/channel-stage.ts";
import { StubLink } from "../testing/stub-link.ts";
import { encodeHeader, FrameHeader, HEADER_BYTES, Kind, paddedBytes } from "../wire/frame.ts";
import { encodeJson } from "../wire/json-body.ts";
import { PeerMetrics } from "./channel-host.ts";
import { Connection } from "./connection.ts";
import { PlainReadBuffers } from "./request-assembly.ts";

const KIB = 1024;

function frame(kind: Kind, request: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES + paddedBytes(payload.length));
  const header = new FrameHeader().reset(kind, kind === Kind.HELLO ? 0 : STAGE_FUNCTION);
  header.request = request;
  header.settled = 1;
  header.payloadBytes = payload.length;
  encodeHeader(header, new Uint32Array(bytes.buffer), 0);
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

class ConnectionStage {
  readonly inner = new StubLink();
  readonly #stage = new ChannelStage({ handler: { handle: (channel, header) => channel.acknowledge(header) } });
  readonly #connection: Connection;
  #requests = 0;

  constructor() {
    const { channel, clock, link } = this.#stage;
    channel.detach(link);
    this.inner.flushesAtOnce = true;
    const host = {
      clock,
      metrics: new PeerMetrics(),
      readBuffers: new PlainReadBuffers(),
      helloTimeoutMs: 1000,
      packageVersion: "",
      helloCame: () => ({ channel, reply: undefined }),
      refused: () => assert.fail("nobody refuses"),
      ended: () => {},
    };
    this.#connection = new Connection(host, this.inner);
    this.read([frame(Kind.HELLO, 0, encodeJson({ job: "job", kind: "worker", node: 9, incarnation: 1, expects: 1 }))]);
    assert.equal(this.#connection.channel, channel);
  }

  /** Requests that take so many bytes together, of up to 64 KiB each. */
  requests(byteCount: number): Uint8Array[] {
    const list: Uint8Array[] = [];
    for (let left = byteCount; left > 0; ) {
      const size = Math.min(left, 64 * KIB);
      list.push(frame(Kind.REQUEST, ++this.#requests, new Uint8Array(size - HEADER_BYTES)));
      left -= size;
    }
    return list;
  }

  /** One read of the link, of all that is given. */
  read(frames: readonly Uint8Array[]): void {
    const view = this.#connection.reader.view();
    let at = 0;
    for (const bytes of frames) {
      view.set(bytes, at);
      at += bytes.length;
    }
    this.#connection.reader.received(at);
  }

  /** How many answers have left since the last look. */
  left(): number {
    return this.inner.take().filter(({ header }) => header.kind === Kind.REPLY).length;
  }

  async endTurn(): Promise<void> {
    await this.#stage.clock.advance(0);
  }
}

test("a small read that was all there was is answered before anything else happens", () => {
  const stage = new ConnectionStage();
  stage.read(stage.requests(16 * KIB));
  assert.equal(stage.left(), 1);
});

test("what was answered to a read in bulk leaves with the rest of the turn", async () => {
  const stage = new ConnectionStage();
  const [first = new Uint8Array(), second = new Uint8Array()] = stage.requests(128 * KIB);
  stage.read([first]);
  stage.read([second]);
  assert.equal(stage.left(), 0);
  await stage.endTurn();
  assert.equal(stage.left(), 2);
});

test("what was answered to 256 KiB and more leaves at once: whoever sent it may wait for that alone", () => {
  const stage = new ConnectionStage();
  stage.read(stage.requests(256 * KIB - 8));
  assert.equal(stage.left(), 0, "a little less waits");
  stage.read(stage.requests(256 * KIB));
  assert.equal(stage.left(), 8, "and leaves with those of the next read");
});
