// pslite-recording — recorded traffic of ps-lite's nodes (test/conformance/pslite/*.txt), and raw peers that play it to
// a cluster of ours.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { encodeGreeting, encodeReady } from "../../src/pslite/wire/zmtp.ts";
import type { PsliteCluster } from "../../src/testing/pslite-cluster.ts";
import type { Link, LinkReader, Listener } from "../../src/transport/transport.ts";

export type Recorded = { readonly from: string; readonly to: string; readonly bytes: Uint8Array };

export function bytesOf(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, "hex"));
}

export function hexText(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

export const RECORDINGS = ["tiny", "full", "resend", "recovery", "twobytwo"] as const;

export function readRecording(name: (typeof RECORDINGS)[number]): Recorded[] {
  const text = readFileSync(join(import.meta.dirname, "pslite", `${name}.txt`), "utf8");
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [from = "", to = "", hex = ""] = line.split(" ");
      return { from, to, bytes: bytesOf(hex) };
    });
}

/** What one end of a connection sent, in order. */
export function sentBy(recording: readonly Recorded[], from: string, to: string): Uint8Array[] {
  return recording.filter((recorded) => recorded.from === from && recorded.to === to).map(({ bytes }) => bytes);
}

export function hexOf(parts: readonly Uint8Array[]): string {
  return parts.map((part) => hexText(part)).join("");
}

/** Keeps what comes over a connection, as hex. */
export class Keeper implements LinkReader {
  hex = "";
  isClosed = false;
  readonly #view = new Uint8Array(4096);

  view(): Uint8Array {
    return this.#view;
  }

  received(byteCount: number): void {
    this.hex += hexText(this.#view.subarray(0, byteCount));
  }

  closed(): void {
    this.isClosed = true;
  }
}

/** Listens where a node of ps-lite would, and keeps what is sent there, by connection. */
export class RawListener {
  readonly connections: Keeper[] = [];
  readonly #links: Link[] = [];
  #listener: Listener | undefined;

  static async at(cluster: PsliteCluster, port: number): Promise<RawListener> {
    const listener = new RawListener();
    listener.#listener = await cluster.transport(`raw-${port}`).listen(`tcp://127.0.0.1:${port}`, (link) => {
      link.write([encodeGreeting(""), encodeReady("ROUTER", "")], () => {});
      const keeper = new Keeper();
      listener.connections.push(keeper);
      listener.#links.push(link);
      return keeper;
    });
    return listener;
  }

  /** Ends it as the death of its process would. */
  async kill(): Promise<void> {
    await this.#listener?.close();
    this.cutOff();
  }

  /** Ends the connections that are open. */
  cutOff(): void {
    for (const link of this.#links.splice(0)) link.destroy();
  }
}

/** Dials a node as one of ps-lite would. */
export class RawDialer {
  readonly keeper: Keeper = new Keeper();
  readonly #link: Link;

  private constructor(link: Link, keeper: Keeper) {
    this.#link = link;
    this.keeper = keeper;
  }

  static async to(cluster: PsliteCluster, port: number): Promise<RawDialer> {
    const keeper = new Keeper();
    const connecting = cluster.transport("raw-dialer").connect(`tcp://127.0.0.1:${port}`, () => keeper, { timeoutMs: 1000 });
    return new RawDialer(await cluster.run(connecting), keeper);
  }

  /** Greeting and READY of a node with this identity; "" for one that has none yet. */
  greet(identity: string): void {
    this.write(encodeGreeting(identity), encodeReady("DEALER", identity));
  }

  write(...parts: readonly Uint8Array[]): void {
    this.#link.write(parts, () => {});
  }

  destroy(): void {
    this.#link.destroy();
  }
}
