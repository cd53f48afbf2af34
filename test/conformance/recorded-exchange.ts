// recorded-exchange — two real channels joined end to end, whose every frame is kept as the bytes it is. What golden
// vectors are made from.

import { joinBytes } from "../../src/base/bytes.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Channel } from "../../src/peer/channel.ts";
import { Peer } from "../../src/peer/peer.ts";
import { PlainReadBuffers } from "../../src/peer/request-assembly.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { MemoryHub, MemoryTransport } from "../../src/transport/memory-transport.ts";
import type { Link } from "../../src/transport/transport.ts";
import { HEADER_BYTES, paddedBytes } from "../../src/wire/frame.ts";
import { FrameReader, READ_BUFFER_BYTES } from "../../src/wire/frame-reader.ts";

/** Keeps whole frames, and hands the bytes on when it is told to. */
export class RecordingLink implements Link {
  readonly remote = "recorded";
  #undelivered: Uint8Array[] = [];
  #frames: Uint8Array[] = [];

  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    const bytes = joinBytes(chunks);
    flushed();
    this.#undelivered.push(bytes);
    for (let at = 0; at < bytes.length; ) {
      const header = new DataView(bytes.buffer, at, HEADER_BYTES);
      const more = header.getUint32(20, true) >>> 21;
      const end = at + HEADER_BYTES + paddedBytes(header.getUint32(8, true)) * (1 + more);
      this.#frames.push(bytes.slice(at, end));
      at = end;
    }
  }

  /** The frames written since the last call. */
  takeFrames(): Uint8Array[] {
    const frames = this.#frames;
    this.#frames = [];
    return frames;
  }

  takeBytes(): Uint8Array {
    const bytes = joinBytes(this.#undelivered);
    this.#undelivered = [];
    return bytes;
  }

  pause(): void {}
  resume(): void {}
  close(): void {}
  destroy(): void {}
}

const SERVER_NODE = 8;
const WORKER_NODE = 9;

class End {
  readonly peer: Peer;
  readonly channel: Channel;
  readonly link: RecordingLink = new RecordingLink();
  readonly #reader: FrameReader;

  constructor(clock: SimClock, otherNode: number, buffer: Uint8Array) {
    const transport = new MemoryTransport({ clock, hub: new MemoryHub() });
    this.peer = new Peer({ transport, clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers() });
    this.channel = new Channel(this.peer, otherNode, 1);
    this.#reader = new FrameReader(this.channel, buffer);
    this.channel.attach(this.link, true);
  }

  take(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      const view = this.#reader.view();
      const part = bytes.subarray(at, at + view.length);
      view.set(part);
      this.#reader.received(part.length);
      at += part.length;
    }
  }
}

export class RecordedExchange {
  readonly clock: SimClock = new SimClock();
  readonly requester: End;
  readonly server: End;

  /** `serverBuffer` is where the server reads to; in its arena when it needs that. */
  constructor(serverBuffer: Uint8Array = new Uint8Array(READ_BUFFER_BYTES)) {
    this.requester = new End(this.clock, SERVER_NODE, new Uint8Array(READ_BUFFER_BYTES));
    this.server = new End(this.clock, WORKER_NODE, serverBuffer);
  }

  /** Lets frames pass to and fro until nothing moves; returns what each side sent since the last call. */
  async settle(): Promise<{ readonly asked: Uint8Array[]; readonly answered: Uint8Array[] }> {
    for (;;) {
      await this.clock.run();
      const requests = this.requester.link.takeBytes();
      this.server.take(requests);
      await this.clock.run();
      const answers = this.server.link.takeBytes();
      this.requester.take(answers);
      if (requests.length === 0 && answers.length === 0) break;
    }
    return { asked: this.requester.link.takeFrames(), answered: this.server.link.takeFrames() };
  }
}
