// table-requests — the requests to a TableStore, as addresses in the arena. Keys are u64, values f32, `width` per key.

/** Who owns which keys. */
export type KeyOwners = {
  /** The address of a byte for each part, 1 if this server owns it. 0: do not check. */
  readonly owned: number;
  /** Keys in the arena. Throws, naming the first key that this server does not own. */
  checkKeys(keys: BigUint64Array): void;
};

export type KeyList = {
  readonly keys: number;
  readonly keyCount: number;
  /** A call with a foreign key is refused before it changes anything. Default: not checked. */
  readonly owners?: KeyOwners | undefined;
};

export type TableUpdate = KeyList & {
  readonly gradients: number;
  /** How many updates each gradient sums up (u32 each): a row's version grows by it. Default: one each. */
  readonly updateCounts?: number | undefined;
};

export type TablePull = KeyList & {
  readonly out: number;
  /** Where the rows' versions go, u32 each. */
  readonly versionsOut?: number | undefined;
};

export type TableSync = {
  readonly keys: number;
  readonly keyCount: number;
  /** The version of each key that the caller has, u32; VERSION_NONE where it has none. */
  readonly known: number;
  /** How many updates a row may be ahead without being sent. Infinity: send only rows that the caller lacks. */
  readonly bound: number;
  /** Room for keyCount u32 each, and keyCount rows. */
  readonly indexesOut: number;
  readonly versionsOut: number;
  readonly rowsOut: number;
};

export type TableRestore = {
  readonly keys: number;
  readonly keyCount: number;
  /** Everything that follows the key of a row, for each key in turn. */
  readonly payloads: number;
};

/** Part of every row, counted from its values. */
type RowColumn = { readonly offset: number; readonly byteCount: number };

export type RowColumns = {
  readonly key: RowColumn;
  readonly values: RowColumn;
  /** Slots and words of the optimizer; of no bytes where it has none. */
  readonly slots: RowColumn;
  readonly version: RowColumn | undefined;
  /** All but the key. */
  readonly payload: RowColumn;
};

/** Whole rows: keys, and for each its values, slots, words and version as they lie in the table. Not in the arena. */
export type RowImages = { readonly keys: BigUint64Array; readonly payloads: Uint8Array };
