// ps-updater — an updater of a user's own: what a gradient does to a row, in plain TypeScript, for rows of tables and
// of tensors. Our own updaters of rows that are not f32 are such, too (plain-updaters.ts); those of f32 are kernels
// behind the same face (parameter-updater.ts). Not how it is called: plug-in-updater.ts.
//
//   export const clamped = psUpdater({
//     name: "clamped",
//     version: 1,
//     deterministic: true,
//     settings: { limit: 1 },
//     update: (rows, gradients, { settings: { limit } }) => {
//       const { elements: values, starts, count, width } = rows;
//       for (let i = 0; i < count; i++) {
//         for (let j = 0; j < width; j++) {
//           const at = starts[i]! + j;
//           values[at] = Math.max(-limit, Math.min(limit, values[at]! + gradients.elements[gradients.starts[i]! +
//           j]!));
//         }
//       }
//     },
//   });
//
// Invariants:
//   PsUpdater.U1. It is called for a list of rows, each named once, never for one row: some hundreds of rows of a
//       table, or the rows of a block of a tensor.
//   PsUpdater.U2. What it does to a row depends on that row, its columns, its gradient and the step alone: a list may
//       be cut anywhere.
//   PsUpdater.U3. All it keeps lies in its columns. They begin with what `columns` says, move and are saved with their
//       rows.

import { badArgument, showValue } from "../../base/errors.ts";
import { ELEMENT_LIST, isRowElement, type RowElement, type RowSpans } from "../../kernel/row-element.ts";
import { checkMembers, checkPlugIn, type PlugInIdentity } from "../plug-in-identity.ts";
import type { RowsInHand, SavedColumns } from "../row-types/ps-row-type.ts";

/** Numbers, texts and flags, by name. */
export type UpdaterSettings = Readonly<Record<string, number | string | boolean>>;

/** The other arguments of an update. */
export type UpdaterStep<S extends UpdaterSettings = UpdaterSettings> = {
  /** The optimizer's settings. */
  readonly settings: S;
  /** At the clock of the push, by the schedule; 0.01 if the optimizer has none. */
  readonly learningRate: number;
  /** The clock of the push. */
  readonly clock: number;
  /** The rank of the worker that pushed; undefined for what several pushed together. */
  readonly worker: number | undefined;
};

/** Elements of a column of each row, and what they begin with. */
export type UpdaterColumn = {
  /** How many elements of it a row has. */
  readonly dim: number;
  /** What they begin with. Defaults to 0. */
  readonly start?: number | undefined;
};

/** How an updater is described. */
export type PsUpdaterOptions<S extends UpdaterSettings, E extends RowElement> = {
  /** Names it in `optimizer`. Unique within a server. */
  readonly name: string;
  /** Rises with every change of what it does or keeps. */
  readonly version: number;
  /** Promises that equal rows, gradients and steps give equal bits, on every server (PlugIn.P1). */
  readonly deterministic: boolean;
  /** What the rows may be made of that it updates. Defaults to f32 alone. */
  readonly dtypes?: readonly E[] | undefined;
  /** Its settings with their defaults. An optimizer may set others of the same types, but no new ones. */
  readonly settings?: S | undefined;
  /** What it keeps for a row of this dim, in addition to the values. Nothing when left out (PsUpdater.U3). */
  columns?(dim: number): Readonly<Record<string, UpdaterColumn>>;
  /**
   * Changes rows, and their columns, by a gradient each (PsUpdater.U1, PsUpdater.U2). If it throws, the rows are as
   * they were.
   */
  update(rows: RowsInHand<E>, gradients: RowSpans<E>, step: UpdaterStep<S>): void;
  /** May change columns on their way into a checkpoint. They are saved as they are when left out. */
  save?(saved: SavedColumns<E>): void;
  /**
   * Makes of columns that `version` of it saved those of this one; columns which that version did not have hold what
   * they begin with. Without it, only a checkpoint of the same version is restored.
   */
  load?(saved: SavedColumns<E>, version: number): void;
};

/** What psUpdater made; `with` describes it to `session.tensor` and `session.embedding`. */
export type PsUpdater<S extends UpdaterSettings = UpdaterSettings, E extends RowElement = RowElement> = PlugInIdentity & {
  readonly kind: "updater";
  /** Of which rows it is. */
  readonly dtypes: readonly E[];
  /** Its settings with their defaults. */
  readonly settings: S;
  /** @internal */
  columns(dim: number): Readonly<Record<string, UpdaterColumn>>;
  /** @internal */
  update(rows: RowsInHand<E>, gradients: RowSpans<E>, step: UpdaterStep<S>): void;
  /** @internal */
  save?(saved: SavedColumns<E>): void;
  /** @internal */
  load?(saved: SavedColumns<E>, version: number): void;
  /** The `optimizer` of a parameter that this updater is to update, of this version. */
  with(settings?: Partial<S>): {
    readonly type: "custom";
    readonly updater: string;
    readonly version: number;
    readonly settings: Partial<S>;
  };
};

const OPTION_NAMES = ["name", "version", "deterministic", "dtypes", "settings", "columns", "update", "save", "load"] as const;

/**
 * Makes an updater of your own, which servers call with a list of rows and the gradient of each. Servers have it if a
 * module that they load (`--functions`) exports it. Throws BAD_ARGUMENT.
 *
 * @example
 * ```ts
 * export const scaled = psUpdater({
 *   name: "scaled",
 *   version: 1,
 *   deterministic: true,
 *   settings: { factor: 0.5 },
 *   update(rows, gradients, { settings: { factor } }) {
 *     for (let i = 0; i < rows.count; i++)
 *       for (let j = 0; j < rows.width; j++)
 *         rows.elements[rows.starts[i]! + j]! -= factor * gradients.elements[gradients.starts[i]! + j]!;
 *   },
 * });
 * const w = await session.tensor("w", { shape: [10], optimizer: scaled.with({ factor: 0.1 }) });
 * ```
 */
export function psUpdater<const E extends RowElement = "f32", S extends UpdaterSettings = Record<never, never>>(
  options: PsUpdaterOptions<S, E>,
): PsUpdater<S, E> {
  checkPlugIn("an updater", options, OPTION_NAMES);
  const { name, version, deterministic, dtypes = ["f32"], settings = {}, columns = () => ({}), update, save, load } = options;
  checkMembers(name, options, ["columns", "update", "save", "load"], ["update"]);
  if (!(Array.isArray(dtypes) && dtypes.length > 0 && dtypes.every(isRowElement)))
    throw badArgument(`${name}: dtypes must be a list of ${ELEMENT_LIST}, got ${showValue(dtypes)}`);
  checkSettings(name, settings);
  return {
    ...{
      kind: "updater",
      name,
      version,
      deterministic,
      dtypes: dtypes as readonly RowElement[] as readonly E[],
      settings: settings as S,
      columns,
      update,
    },
    ...(save === undefined ? {} : { save }),
    ...(load === undefined ? {} : { load }),
    with: (chosen = {}) => ({ type: "custom", updater: name, version, settings: chosen }),
  };
}

function checkSettings(name: string, settings: unknown): void {
  if (typeof settings !== "object" || settings === null)
    throw badArgument(`${name}: settings are an object with a default for each, not ${showValue(settings)}`);
  for (const [setting, value] of Object.entries(settings)) {
    if (typeof value === "string" || typeof value === "boolean" || Number.isFinite(value)) continue;
    throw badArgument(`${name}: the default of ${setting} is a finite number, a text or a flag, not ${showValue(value)}`);
  }
}
