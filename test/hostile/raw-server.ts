// raw-server — a server node with nothing behind it but the test: registers with the scheduler, says hello to whoever
// dials it, and hands every request to the test, which answers with any bytes it likes.

import type { Link, Transport } from "../../src/transport/transport.ts";
import { FrameHeader, Kind } from "../../src/wire/frame.ts";
import { FrameReader, READ_BUFFER_BYTES } from "../../src/wire/frame-reader.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import { decodeJson, encodeJson } from "../../src/wire/json-body.ts";
import { type RegisterReply, registerReplyShape } from "../../src/wire/register.ts";
import { RawClient } from "./raw-client.ts";
import { jsonFrameBytes, type RawFrame } from "./raw-frame.ts";

export type Reply = (bytes: Uint8Array) => void;

export class RawServer {
  /** What to do with a request; set by the test. */
  serve: (request: RawFrame, reply: Reply) => void = () => {};
  linkCount = 0;
  requestCount = 0;
  #registration: RegisterReply | undefined;
  #expects = 1;

  /** Listens at this address and registers as the only server of a cluster with one worker. */
  static async start(transport: Transport, address: string, schedulerAddress: string): Promise<RawServer> {
    const server = new RawServer();
    await transport.listen(address, (link) => server.#open(link));
    const client = await RawClient.greet(transport, schedulerAddress);
    const body = { role: "server", rank: 0, address, serverCount: 1, workerCount: 1, label: "raw", token: "raw" };
    const answer = await client.ask({ functionId: FunctionId.REGISTER }, encodeJson(body));
    if (answer?.header.kind !== Kind.REPLY) throw new Error("the scheduler did not take the server");
    server.#registration = decodeJson(registerReplyShape, "the answer", answer.payload);
    return server;
  }

  #open(link: Link) {
    this.linkCount++;
    const send = (bytes: Uint8Array): void => link.write([bytes], () => {});
    const reader = new FrameReader(
      {
        destination: () => undefined,
        frame: (header, bytes, at) => {
          const frame = { header: Object.assign(new FrameHeader(), header), payload: bytes.slice(at, at + header.payloadBytes) };
          if (header.kind === Kind.HELLO) send(this.#hello());
          else if (header.kind === Kind.REQUEST) this.#take(frame, send);
        },
      },
      new Uint8Array(READ_BUFFER_BYTES),
    );
    return { view: () => reader.view(), received: (byteCount: number) => reader.received(byteCount), closed: () => {} };
  }

  #hello(): Uint8Array {
    if (this.#registration === undefined) throw new Error("a worker came before the server was registered");
    const { job, node, incarnation } = this.#registration;
    return jsonFrameBytes(Kind.HELLO, {}, { job, kind: "server", node, incarnation, expects: this.#expects });
  }

  #take(frame: RawFrame, reply: Reply): void {
    this.requestCount++;
    this.#expects = Math.max(this.#expects, frame.header.request + 1);
    this.serve(frame, reply);
  }
}
