// visitor-link — a link over which our own protocol is spoken with a scheduler whose nodes speak ps-lite's. Tools may ask it who is there; a node cannot
// join that way: those of ps-lite would be told of a node that they cannot reach. Otherwise it is the link that it was made of.

import type { Link } from "../transport/transport.ts";

export class VisitorLink implements Link {
  readonly joinRefusal: string =
    "speaks our own protocol, and this cluster ps-lite's: start it with --van zmq (DMLC_PS_VAN_TYPE=zmq), or all nodes without";
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  get remote(): string {
    return this.#link.remote;
  }

  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    this.#link.write(chunks, flushed);
  }

  pause(): void {
    this.#link.pause();
  }

  resume(): void {
    this.#link.resume();
  }

  close(): void {
    this.#link.close();
  }

  destroy(): void {
    this.#link.destroy();
  }
}
