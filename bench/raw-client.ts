// raw-client — the asking end of the raw ceiling, a process of its own: keeps `window` requests in flight on one
// connection per server.

import { connect, type Socket } from "node:net";
import { serveCommands } from "./command-loop.ts";
import { type Figure, Meter, type Span } from "./meter.ts";
import { boundSendBuffer, stayAwake } from "./raw-socket.ts";
import { type RawFlow, type RawPlan, RawSender } from "./raw-stream.ts";

export type RawMeasurement = { readonly ports: readonly number[]; readonly flow: RawFlow; readonly plan: RawPlan; readonly span: Span };

export type RawClientProtocol = {
  measure: { request: RawMeasurement; reply: Figure };
};

const meter = new Meter();

/**
 * One connection. Replies come in the order of the requests, so a ring of issue times is enough to know every latency.
 */
class RawLink {
  readonly #flow: RawFlow;
  readonly #drained: () => void;
  readonly #issuedAt: Float64Array;
  readonly #socket: Socket;
  readonly #sender: RawSender;
  #oldest = 0;
  #inFlight = 0;
  #receivedBytes = 0;

  constructor(port: number, { flow, plan }: RawMeasurement, drained: () => void) {
    this.#flow = flow;
    this.#drained = drained;
    this.#issuedAt = new Float64Array(flow.window);
    const onread = { buffer: new Uint8Array(plan.readBytes), callback: (bytes: number) => this.#onBytes(bytes) };
    this.#socket = connect({ host: "127.0.0.1", port, noDelay: true, onread });
    this.#sender = new RawSender({ socket: this.#socket, plan, messageBytes: flow.requestBytes });
  }

  async connected(): Promise<void> {
    await new Promise<void>((resolve, reject) => this.#socket.once("connect", resolve).once("error", reject));
    boundSendBuffer(this.#socket);
  }

  open(): void {
    this.#inFlight = this.#flow.window;
    this.#issuedAt.fill(performance.now());
    this.#sender.owe(this.#flow.window * this.#flow.requestBytes);
  }

  close(): void {
    this.#socket.destroy();
  }

  #onBytes(bytes: number): boolean {
    const { replyBytes, requestBytes, window } = this.#flow;
    stayAwake();
    const now = performance.now();
    let wanted = 0;
    this.#receivedBytes += bytes;
    while (this.#receivedBytes >= replyBytes) {
      this.#receivedBytes -= replyBytes;
      if (meter.complete(this.#issuedAt[this.#oldest]!, now)) wanted++;
      else this.#inFlight--;
      this.#issuedAt[this.#oldest] = now; // the slot of the request that replaces it
      this.#oldest = this.#oldest + 1 === window ? 0 : this.#oldest + 1;
    }
    if (wanted > 0) this.#sender.owe(wanted * requestBytes);
    if (this.#inFlight === 0) this.#drained();
    return true;
  }
}

async function measure(measurement: RawMeasurement): Promise<Figure> {
  const links: RawLink[] = [];
  let open = measurement.ports.length;
  const drained = new Promise<void>((resolve) => {
    for (const port of measurement.ports) links.push(new RawLink(port, measurement, () => --open === 0 && resolve()));
  });
  await Promise.all(links.map((link) => link.connected()));
  meter.start(measurement.span);
  for (const link of links) link.open();
  await drained;
  for (const link of links) link.close();
  return meter.figure();
}

serveCommands<RawClientProtocol>({ measure });
