// sim-etcd — etcd for simulated schedulers: one store in simulated time, with leases that end. What a client asks takes
// time, and can be lost on its way or on its way back, or arrive late; a client can be cut off, or be stopped with its
// process. Elections of etcd's own members are not here.

import type { Clock } from "../../src/base/clock.ts";
import { WeighbridgeError } from "../../src/base/errors.ts";
import type { Random } from "../../src/base/random.ts";
import type { EtcdApi, EtcdChange, EtcdEntry } from "../../src/node/state/etcd-api.ts";

type Stored = EtcdEntry & { readonly lease: string | undefined };

const DELAY_MS_MAX = 5;
const CALL_MS = 1000;
/** Longer than the leases of tests. */
const LATE_MS_MAX = 8000;

export class SimEtcd {
  readonly entries: Map<string, Stored> = new Map();
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #leases = new Map<string, number>();
  readonly #watchers = new Set<() => void>();
  #revision = 0;
  #leaseCount = 0;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  /** What one process has of it. */
  client(): SimEtcdClient {
    return new SimEtcdClient(this, this.#clock, this.#random);
  }

  list(prefix: string): EtcdEntry[] {
    const found = [...this.entries.values()].filter(({ key }) => key.startsWith(prefix));
    return found.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  }

  change({ ifKey, hasCreateRevision, puts = [], removes = [] }: EtcdChange): boolean {
    if ((this.entries.get(ifKey)?.createRevision ?? 0) !== hasCreateRevision) return false;
    if (puts.some(({ lease }) => lease !== undefined && !this.isAlive(lease)))
      throw new WeighbridgeError("STATE_IO", "etcdserver: requested lease not found");
    this.#revision++;
    for (const key of [...this.entries.keys()]) if (removes.some((prefix) => key.startsWith(prefix))) this.entries.delete(key);
    for (const { key, value, lease } of puts)
      this.entries.set(key, { key, value, lease, createRevision: this.entries.get(key)?.createRevision ?? this.#revision });
    this.#news();
    return true;
  }

  grant(ttlMs: number): string {
    const lease = `lease-${++this.#leaseCount}`;
    this.keep(lease, ttlMs);
    return lease;
  }

  isAlive(lease: string): boolean {
    return this.#leases.has(lease);
  }

  keep(lease: string, ttlMs: number): void {
    const untilMs = this.#clock.nowMs() + ttlMs;
    this.#leases.set(lease, untilMs);
    this.#clock.after(ttlMs, () => this.#leases.get(lease) === untilMs && this.end(lease));
  }

  end(lease: string): void {
    this.#leases.delete(lease);
    for (const [key, entry] of this.entries) if (entry.lease === lease) this.entries.delete(key);
    this.#news();
  }

  onNews(listener: () => void): void {
    this.#watchers.add(listener);
  }

  #news(): void {
    for (const listener of this.#watchers) listener();
    this.#watchers.clear();
  }
}

export class SimEtcdClient implements EtcdApi {
  /** Nothing reaches etcd, and nothing comes back. */
  isCut = false;
  /** How many of a hundred calls are lost, half of them after they were carried out. */
  lossPercent = 0;
  readonly #etcd: SimEtcd;
  readonly #clock: Clock;
  readonly #random: Random;
  #ttlMs = 0;

  constructor(etcd: SimEtcd, clock: Clock, random: Random) {
    this.#etcd = etcd;
    this.#clock = clock;
    this.#random = random;
  }

  async grantLease(ttlMs: number): Promise<{ readonly lease: string; readonly ttlMs: number }> {
    this.#ttlMs = ttlMs;
    return { lease: await this.#call(() => this.#etcd.grant(ttlMs)), ttlMs };
  }

  keepAlive(lease: string): Promise<boolean> {
    return this.#call(() => {
      const isAlive = this.#etcd.isAlive(lease);
      if (isAlive) this.#etcd.keep(lease, this.#ttlMs);
      return isAlive;
    });
  }

  revokeLease(lease: string): Promise<void> {
    return this.#call(() => this.#etcd.end(lease));
  }

  change(change: EtcdChange): Promise<boolean> {
    return this.#call(() => this.#etcd.change(change));
  }

  list(prefix: string): Promise<readonly EtcdEntry[]> {
    return this.#call(() => this.#etcd.list(prefix));
  }

  async watch(_key: string, waitMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#etcd.onNews(() => !this.isCut && resolve());
      this.#clock.after(waitMs, resolve);
    });
  }

  async #call<T>(step: () => T): Promise<T> {
    const pause = (delayMs: number): Promise<void> => new Promise((resolve) => this.#clock.after(delayMs, resolve));
    const isLost = (): boolean => this.isCut || this.#random.below(200) < this.lossPercent;
    const fail = async (): Promise<never> => {
      await pause(CALL_MS);
      throw new WeighbridgeError("STATE_IO", "etcd does not answer", { retryable: true });
    };
    await pause(this.#random.below(DELAY_MS_MAX));
    if (isLost()) {
      // It comes late.
      if (this.#random.chance(0.5)) this.#clock.after(this.#random.below(LATE_MS_MAX), () => attempt(step));
      return await fail();
    }
    const result = step();
    await pause(this.#random.below(DELAY_MS_MAX));
    return isLost() ? await fail() : result;
  }
}

/** What comes late is answered to nobody. */
function attempt(step: () => unknown): void {
  try {
    step();
  } catch {
    // a lease that has ended meanwhile
  }
}
