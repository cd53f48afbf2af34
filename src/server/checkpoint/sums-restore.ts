// sums-restore — fills the sums of a server that has none from a checkpoint, whichever servers wrote it: those of the
// kv face by the range of raw keys that the server owns now, data of `pushData` by its parts. If an application chose
// the servers of its requests itself, each server gets what it had.

import { type SumsOfWidth, sumsOf } from "../../store/snapshot/describe-sums.ts";
import { KEYS_COLUMN, type ParameterRecord, VALUES_COLUMN } from "../../store/snapshot/parameter-record.ts";
import type { SnapshotSource, SourceBatch } from "../../store/snapshot/snapshot-files.ts";
import type { SumOwner } from "../../store/sums/sum-requests.ts";
import type { SumStore } from "../../store/sums/sum-store.ts";
import { type Ownership, ownsRawKey } from "../ownership.ts";
import type { ServerSums } from "../parameters/server-sums.ts";
import { expectedSums, isAppCut, sharesOf } from "./expected-rows.ts";

type Saved = { readonly record: ParameterRecord; readonly sums: SumsOfWidth };

/** Nobody may use sums meanwhile. Throws CHECKPOINT_TORN, _FOREIGN or _IO, ARENA_FULL; the sums are then of no use. */
export async function restoreSums(sums: ServerSums, source: SnapshotSource, ownership: Ownership): Promise<void> {
  const byOwner = new Map<SumOwner, Saved[]>();
  for (const record of source.manifest.parameters) {
    if (record.kind !== "sums") continue;
    const saved = { record, sums: sumsOf(record, source.path) };
    byOwner.set(saved.sums.owner, [...(byOwner.get(saved.sums.owner) ?? []), saved]);
  }
  for (const [owner, saved] of byOwner) {
    const store = sums.of(owner);
    const isOwn = ownerTest(owner, source, ownership);
    store.expect(
      saved[0]!.sums.type,
      saved.map(({ record, sums: { width } }) => ({ width, byPart: expectedSums(source, record, ownership) })),
    );
    for (const {
      record,
      sums: { width },
    } of saved) {
      const shares = sharesOf(source, record, ownership);
      for (const chunk of source.chunks(record.name)) {
        const isRead = shares === undefined ? ownership.ownsAnyOf(chunk.key) : (shares.get(chunk.file) ?? 0) > 0;
        if (isRead) await source.readRows(chunk, (batch) => put(store, batch, { width, isOwn }));
      }
    }
    store.settle();
  }
}

type KeyTest = (low: number, high: number) => boolean;

function ownerTest(owner: SumOwner, { manifest }: SnapshotSource, ownership: Ownership): KeyTest {
  if (owner === "data") return (low, high) => ownership.ownsKey(low, high);
  return isAppCut(manifest) ? () => true : (low, high) => ownsRawKey(ownership, low, high);
}

/** Puts those of a batch that this server owns into the store, after moving them to its front. */
function put(
  store: SumStore,
  { rowCount, columns }: SourceBatch,
  { width, isOwn }: { readonly width: number; readonly isOwn: KeyTest },
): void {
  const [keys, values] = [columns.get(KEYS_COLUMN) ?? new Uint8Array(0), columns.get(VALUES_COLUMN) ?? new Uint8Array(0)];
  const halves = new Uint32Array(keys.buffer, keys.byteOffset, 2 * rowCount);
  const valueBytes = values.length / Math.max(1, rowCount);
  let own = 0;
  for (let i = 0; i < rowCount; i++) {
    if (!isOwn(halves[2 * i]!, halves[2 * i + 1]!)) continue;
    if (own !== i) {
      halves.copyWithin(2 * own, 2 * i, 2 * i + 2);
      values.copyWithin(own * valueBytes, i * valueBytes, (i + 1) * valueBytes);
    }
    own++;
  }
  store.putSaved({ width, keys: new BigUint64Array(keys.buffer, keys.byteOffset, own), payloads: values.subarray(0, own * valueBytes) });
}
