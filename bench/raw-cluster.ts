// raw-cluster — the processes of the raw ceiling: n servers and n clients, every client connected with every server.

import { Child, type Regime } from "./child.ts";
import { type Figure, type Span, together } from "./meter.ts";
import type { RawClientProtocol } from "./raw-client.ts";
import type { RawServerProtocol } from "./raw-server.ts";
import type { RawFlow, RawPlan } from "./raw-stream.ts";

const SERVER = new URL("./raw-server.ts", import.meta.url);
const CLIENT = new URL("./raw-client.ts", import.meta.url);

export class RawCluster implements AsyncDisposable {
  readonly #servers: readonly Child<RawServerProtocol>[];
  readonly #clients: readonly Child<RawClientProtocol>[];
  readonly #ports: readonly number[];

  private constructor(
    servers: readonly Child<RawServerProtocol>[],
    clients: readonly Child<RawClientProtocol>[],
    ports: readonly number[],
  ) {
    this.#servers = servers;
    this.#clients = clients;
    this.#ports = ports;
  }

  static async start({ regime, nodesPerRole }: { regime: Regime; nodesPerRole: number }): Promise<RawCluster> {
    const ranks = [...Array(nodesPerRole).keys()];
    const servers = ranks.map((rank) => new Child<RawServerProtocol>({ name: `raw server ${rank}`, script: SERVER, regime }));
    const clients = ranks.map((rank) => new Child<RawClientProtocol>({ name: `raw client ${rank}`, script: CLIENT, regime }));
    const listening = await Promise.all(servers.map((server) => server.ask("listen", null)));
    return new RawCluster(
      servers,
      clients,
      listening.map(({ port }) => port),
    );
  }

  /** `flow` is per connection; the figure's rate counts a request that is spread over all servers once. */
  async measure(flow: RawFlow, plan: RawPlan, span: Span): Promise<Figure> {
    await Promise.all(this.#servers.map((server) => server.ask("configure", { flow, plan })));
    const measurement = { ports: this.#ports, flow, plan, span };
    const figure = together(await Promise.all(this.#clients.map((client) => client.ask("measure", measurement))));
    return { ...figure, reqPerSec: figure.reqPerSec / this.#servers.length };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#servers, ...this.#clients].map((child) => child.close()));
  }
}
