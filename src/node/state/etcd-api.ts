// etcd-api — the little of etcd that a scheduler needs: keys that change together if another one is as it was, leases
// that end, and the news that a key is gone. etcd-client.ts speaks to real members.

/** A key with the revision of the store in which it was made: 0 for one that does not exist. */
export type EtcdEntry = { readonly key: string; readonly value: string; readonly createRevision: number };

export type EtcdPut = { readonly key: string; readonly value: string; readonly lease?: string | undefined };

export type EtcdChange = {
  /** Nothing changes unless this key was made in this revision. */
  readonly ifKey: string;
  readonly hasCreateRevision: number;
  readonly puts?: readonly EtcdPut[];
  /** Removes every key that begins so; none of those that are put. */
  readonly removes?: readonly string[];
};

/** Every call rejects with STATE_IO when etcd does not answer; what it was to do may have been done. */
export type EtcdApi = {
  /** Returns the lease's id, and how long it lasts: etcd may make it longer. */
  grantLease(ttlMs: number): Promise<{ readonly lease: string; readonly ttlMs: number }>;
  /** Returns whether the lease goes on, from now. */
  keepAlive(lease: string): Promise<boolean>;
  /** Ends it, and removes its keys. */
  revokeLease(lease: string): Promise<void>;
  /** Returns whether it was changed. */
  change(change: EtcdChange): Promise<boolean>;
  /** Everything that begins so, by key. */
  list(prefix: string): Promise<readonly EtcdEntry[]>;
  /** Resolves when the key may have changed: at the latest when `waitMs` are over. */
  watch(key: string, waitMs: number): Promise<void>;
};
