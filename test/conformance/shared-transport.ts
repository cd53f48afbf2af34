// shared-transport — a Transport over memory that both ends share, for tests: every link is upgraded before its reader
// sees it. What hellos say between nodes, the first bytes say here: one line of JSON from each side.

import type {
  Address,
  ConnectOptions,
  Link,
  LinkReader,
  Listener,
  MemoryOffer,
  MemoryUpgrade,
  Transport,
} from "../../src/transport/transport.ts";

const LINE_BYTES_MAX = 512;
const NEWLINE = 10;

export class SharedTransport implements Transport {
  readonly #inner: Transport;

  /** `inner` makes links that can be upgraded. */
  constructor(inner: Transport) {
    this.#inner = inner;
  }

  async listen(address: Address, accept: (link: Link) => LinkReader): Promise<Listener> {
    return await this.#inner.listen(address, (link) => {
      const upgrade = upgradeOf(link);
      const offer = upgrade.offer();
      if (offer === undefined) throw new Error("this system has no memory to share");
      sendLine(link, offer);
      upgrade.hold();
      return new UpgradingReader(link, (proof) => {
        upgrade.settle(proof as string);
        return accept(link);
      });
    });
  }

  async connect(address: Address, open: (link: Link) => LinkReader, options: ConnectOptions): Promise<Link> {
    const { promise, resolve, reject } = Promise.withResolvers<Link>();
    const opened = (link: Link): LinkReader => {
      const upgrade = upgradeOf(link);
      const reader = new UpgradingReader(link, (offer) => {
        const proof = upgrade.take(offer as MemoryOffer);
        if (proof === undefined) throw new Error("the memory cannot be mapped");
        sendLine(link, proof);
        upgrade.begin();
        const own = open(link);
        resolve(link);
        return own;
      });
      reader.failed = reject;
      return reader;
    };
    await this.#inner.connect(address, opened, options);
    return await promise;
  }
}

function upgradeOf({ upgrade }: Link): MemoryUpgrade {
  if (upgrade === undefined) throw new Error("the link cannot be upgraded");
  return upgrade;
}

function sendLine(link: Link, value: unknown): void {
  link.write([new TextEncoder().encode(`${JSON.stringify(value)}\n`)], () => {});
}

/** Reads one line, and is another reader from then on. */
class UpgradingReader implements LinkReader {
  failed: (error: Error) => void = () => {};
  readonly #link: Link;
  readonly #upgraded: (value: unknown) => LinkReader;
  readonly #line = new Uint8Array(LINE_BYTES_MAX);
  #fill = 0;
  #reader: LinkReader | undefined;

  constructor(link: Link, upgraded: (value: unknown) => LinkReader) {
    this.#link = link;
    this.#upgraded = upgraded;
  }

  view(): Uint8Array {
    return this.#reader?.view() ?? this.#line.subarray(this.#fill);
  }

  received(byteCount: number): void {
    if (this.#reader !== undefined) {
      this.#reader.received(byteCount);
      return;
    }
    this.#fill += byteCount;
    if (this.#line[this.#fill - 1] !== NEWLINE) return;
    try {
      this.#reader = this.#upgraded(JSON.parse(new TextDecoder().decode(this.#line.subarray(0, this.#fill))));
    } catch (thrown) {
      this.failed(thrown as Error);
      this.#link.destroy();
    }
  }

  closed(cause: Error | undefined): void {
    this.failed(cause ?? new Error("the link closed before it was upgraded"));
    this.#reader?.closed(cause);
  }
}
