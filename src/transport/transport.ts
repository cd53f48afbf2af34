// transport — ordered byte streams between nodes, and nothing more: no frames, no retries, no names of nodes. TCP and
// unix sockets (node/), memory (here) and the simulated network (testing/) implement it; one conformance suite holds.
//
// Contract:
//   Link.L1. Bytes arrive whole, in order and once, or the link closes. A link that closed delivers nothing more.
//   Link.L2. `view()` is called right before each read, is never empty, and the bytes land at its beginning.
//   Link.L3. `flushed` is called exactly once per write: when the bytes left this process, or when the link closed.
//       Until then the chunks belong to the link and must not change; later the link never touches them. It may be
//       called from inside `write`.
//   Link.L4. `closed` is called exactly once per link, after the last `received`, never from inside `write` or `close`.
//   Link.L5. A throw out of `received` closes the link with that error; it never reaches the process.
//   Link.L6. A chunk that becomes empty after `write` and before it leaves, because its memory was transferred, closes
//       the link. Nothing behind it leaves, so the other side never takes what follows for what is missing.

/** "tcp://host:port", "unix:///path" or "memory://name". */
export type Address = string;

/** Receives the bytes of one link. Only the transport calls it. */
export type LinkReader = {
  /** Where the next bytes go (Link.L2). */
  view(): Uint8Array;
  /** `byteCount` bytes were written at the beginning of the last view. */
  received(byteCount: number): void;
  /** The link is gone; `cause` is set unless either side closed it normally. */
  closed(cause: Error | undefined): void;
};

/** Memory that one end of a link made for both (docs/decisions/0098). */
export type MemoryOffer = { readonly path: string; readonly byteCount: number; readonly nonce: string };

/**
 * How a link goes on in memory that both ends share, if both are on one host. Who accepted the link offers; who dialed
 * answers, and both switch between two frames. Bytes that were written before arrive before.
 *
 *   accepted: offer ── hello leaves ── hold ── answer comes ── settle          dialed: take ── answer leaves ── begin
 */
export type MemoryUpgrade = {
  /** Which host this is: ends that name the same may try. */
  readonly host: string;
  /** Whether what is written goes through memory. */
  readonly isShared: boolean;
  /** Makes memory; undefined if the system has none. */
  offer(): MemoryOffer | undefined;
  /** What is written from now on waits until `settle`. */
  hold(): void;
  /** The dialer has the memory and goes on there, as this proves; undefined: the link stays. Throws BAD_FRAME. */
  settle(proof: string | undefined): void;
  /** Maps memory that was offered, and returns the proof; undefined if that fails: the link stays as it is. */
  take(offer: MemoryOffer): string | undefined;
  /** From now on everything is written to and read from memory. */
  begin(): void;
};

export type Link = {
  /** The other end, for log lines. */
  readonly remote: string;
  /** Left out where the ends share no memory. */
  readonly upgrade?: MemoryUpgrade | undefined;
  /** Sends the chunks in order as one write. On a closed link it drops them, and still calls `flushed` (Link.L3). */
  write(chunks: readonly Uint8Array[], flushed: () => void): void;
  /** Stops asking for input until `resume`; input already under way may still arrive. */
  pause(): void;
  resume(): void;
  /** Whether the next input is near, and worth staying awake for. Left out where nobody stays awake. */
  setWakeful?(isWakeful: boolean): void;
  /** Closes both directions after what was written has been handed to the system. */
  close(): void;
  /** Closes at once and drops what was not sent; the other side sees an abrupt end. */
  destroy(): void;
};

export type Listener = {
  /** What others connect to, with the real port. */
  readonly address: Address;
  close(): Promise<void>;
};

export type ConnectOptions = { readonly timeoutMs: number };

export type Transport = {
  /**
   * Throws PORT_IN_USE for a taken address, BAD_CONFIG if this machine cannot listen there, BAD_ARGUMENT for no
   * address.
   */
  listen(address: Address, accept: (link: Link) => LinkReader): Promise<Listener>;
  /**
   * Throws NO_ROUTE when nothing answers there; its cause has the code ECONNREFUSED if the machine says that nothing
   * listens. `open` runs before any byte is read.
   */
  connect(address: Address, open: (link: Link) => LinkReader, options: ConnectOptions): Promise<Link>;
};

/** The chunks of a write that have bytes: one of these that is empty later has lost its memory (Link.L6). */
export function chunksWithBytes(chunks: readonly Uint8Array[]): readonly Uint8Array[] {
  return hasEmptyChunk(chunks) ? chunks.filter(({ length }) => length > 0) : chunks;
}

export function hasEmptyChunk(chunks: readonly Uint8Array[]): boolean {
  for (let i = 0; i < chunks.length; i++) if ((chunks[i] as Uint8Array).length === 0) return true;
  return false;
}

/** Why a link closes whose chunk lost its memory (Link.L6). */
export function lostChunk(): Error {
  return new Error("the memory of a chunk was transferred away before it left");
}
