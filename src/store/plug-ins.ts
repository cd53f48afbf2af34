// plug-ins — the row types and updaters of users that a server has loaded, and which of them, or of our own, a
// parameter is made with.
//
// Invariants:
//   PlugIns.L1. Names are unique within a server, over all modules.
//   PlugIns.L2. What a parameter cannot be made with is said when it is made: a plug-in that is missing or of another
//       version, settings that it does not have, rows that it does not update, a layout other than its spec says.
//       Errors name the module; who asked a server knows its rank.

import { badArgument, reasonOf, showValue, WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { copyRows } from "../kernel/element-loops.ts";
import { ROW_ELEMENTS, type RowArray, type RowElement } from "../kernel/row-element.ts";
import type { ParameterSpec, TableSpec } from "./parameter-spec.ts";
import type { PlugInIdentity } from "./plug-in-identity.ts";
import { PLAIN_ROW_TYPES, tableRowTypeOf } from "./row-types/built-in-row-types.ts";
import type { PsRowType, SavedColumns } from "./row-types/ps-row-type.ts";
import { elementOf, elementsOf, rowElements } from "./row-types/row-type-spec.ts";
import { describeParameter, plugInsOf } from "./snapshot/describe-parameter.ts";
import type { ParameterRecord } from "./snapshot/parameter-record.ts";
import { isColumnName } from "./snapshot/section-name.ts";
import { TensorShape } from "./tensor-shape.ts";
import { plainUpdater } from "./updaters/plain-updaters.ts";
import type { PlacedColumn } from "./updaters/plug-in-updater.ts";
import { type PsUpdater, psUpdater, type UpdaterSettings } from "./updaters/ps-updater.ts";

/** What a module has. */
export type PlugInModule = {
  /** As errors name it. */
  readonly module: string;
  /** Of its source. */
  readonly hash: string;
  readonly updaters: readonly PsUpdater[];
  readonly rowTypes: readonly PsRowType[];
};

/** A plug-in of a parameter, as servers tell of it: workers compare it among them. */
export type LoadedPlugIn = {
  readonly kind: "updater" | "rowType";
  readonly name: string;
  readonly version: number;
  readonly deterministic: boolean;
  readonly hash: string;
  readonly module: string;
};

/** The updater of a parameter that is plain TypeScript, and how it is to be run. */
export type ChosenUpdater = {
  readonly updater: PsUpdater;
  readonly columns: readonly PlacedColumn[];
  readonly settings: UpdaterSettings;
  /** As errors name it. */
  readonly what: string;
  /** Whether it is ours, and never throws. */
  readonly isOurs: boolean;
};

type Wanted = { readonly name: string; readonly version?: number | undefined };
type Loaded<P> = { readonly plugIn: P; readonly module: string; readonly hash: string };

/** The module of what every server has (built-in-row-types.ts). */
const OURS = "weighbridge";
const RESERVED_COLUMNS: readonly string[] = ["keys", "values", "step", "rowSteps", "version"];
const COLUMN_ELEMENTS_MAX = 131_072;

export class PlugIns {
  readonly #updaters: ReadonlyMap<string, Loaded<PsUpdater>>;
  readonly #rowTypes: ReadonlyMap<string, Loaded<PsRowType>>;

  /** Throws BAD_CONFIG (PlugIns.L1). */
  constructor(modules: readonly PlugInModule[] = []) {
    this.#updaters = byName(modules.map(({ updaters, ...from }) => ({ ...from, plugIns: updaters })));
    this.#rowTypes = byName(modules.map(({ rowTypes, ...from }) => ({ ...from, plugIns: rowTypes })));
  }

  /** The row type of a table; undefined for numbers side by side. Throws UNKNOWN_PLUG_IN, BAD_ARGUMENT (PlugIns.L2). */
  rowTypeOf({ name, width, rowType }: TableSpec): Loaded<PsRowType> | undefined {
    if (typeof rowType !== "object") return undefined;
    const loaded = this.#findRowType(rowType);
    const { dtype } = loaded.plugIn;
    const elements = guarded(nameOf("row type", loaded), () => elementsOf(loaded.plugIn, width, name));
    if (dtype === rowType.element && elements === rowType.elements) return loaded;
    const [here, there] = [`${elements} × ${dtype}`, `${rowType.elements} × ${rowType.element}`];
    throw badArgument(
      `a row of ${quote(rowType.name)} with dim ${width} is ${here} in ${loaded.module}, and ${there} in the spec of ${name}`,
    );
  }

  /** What a new row begins with; undefined where the initializer says it. Throws HANDLER_FAILED, BAD_ARGUMENT. */
  madeRow(spec: TableSpec): RowArray | undefined {
    const loaded = this.rowTypeOf(spec);
    if (loaded?.plugIn.make === undefined) return undefined;
    const { plugIn } = loaded;
    const row = guarded(nameOf("row type", loaded), () => plugIn.make?.(spec.width));
    const { Array: View } = ROW_ELEMENTS[plugIn.dtype];
    if (row instanceof View && row.length === rowElements(spec)) return row as RowArray;
    const expected = `a ${View.name} of ${rowElements(spec)}`;
    throw badArgument(`${nameOf("row type", loaded)} makes ${expected}, not ${showValue(row)}`);
  }

  /**
   * The updater of a parameter; undefined where that is a kernel. Throws UNKNOWN_PLUG_IN, BAD_ARGUMENT, HANDLER_FAILED
   * (PlugIns.L2).
   */
  updaterOf(spec: ParameterSpec): ChosenUpdater | undefined {
    const { optimizer } = spec;
    if (optimizer.type === "custom") return this.#customUpdater(spec);
    if (spec.kind === "tensor" || spec.rowType === undefined) return undefined;
    const rowType = this.rowTypeOf(spec);
    const isOfRowType = optimizer.type === "sum" || optimizer.type === "assign";
    const { plugIn } = rowType ?? { plugIn: PLAIN_ROW_TYPES[elementOf(spec)] };
    const updater = isOfRowType ? updaterOfRowType(plugIn, optimizer.type) : plainUpdater(optimizer, elementOf(spec));
    const what = rowType === undefined ? `updater ${updater.name}` : nameOf("row type", rowType);
    const settings = Object.fromEntries(
      Object.keys(updater.settings).map((name) => [name, (optimizer as unknown as UpdaterSettings)[name] ?? updater.settings[name]]),
    );
    return {
      updater,
      columns: columnsOf(updater, spec, what),
      settings: settings as UpdaterSettings,
      what,
      isOurs: rowType === undefined,
    };
  }

  /** The columns that the parameter's updater keeps, where it is plain TypeScript. */
  columnsOf(spec: ParameterSpec): readonly PlacedColumn[] {
    return this.updaterOf(spec)?.columns ?? [];
  }

  /**
   * The spec of a checkpoint with the versions of plug-ins that are loaded now: whether they can read what others
   * wrote, `loaderOf` says. Throws UNKNOWN_PLUG_IN.
   */
  current(spec: ParameterSpec): ParameterSpec {
    const { optimizer } = spec;
    const version =
      optimizer.version === undefined ? undefined : this.#find(this.#updaters, "updater", { name: optimizer.updater ?? "" }).plugIn.version;
    const updated = version === undefined ? spec : { ...spec, optimizer: { ...optimizer, version } };
    if (updated.kind !== "table" || typeof updated.rowType !== "object") return updated;
    const { name } = updated.rowType;
    return { ...updated, rowType: { ...updated.rowType, version: this.#findRowType({ name }).plugIn.version } };
  }

  /** How the parameter is recorded in a checkpoint. */
  describe(spec: ParameterSpec): ParameterRecord {
    return describeParameter(spec, this.columnsOf(spec), this.loadedFor(spec));
  }

  /** What plug-ins do with columns on their way into a checkpoint; undefined where they do nothing. */
  saverOf(spec: ParameterSpec): ((saved: SavedColumns) => void) | undefined {
    const savers = this.#plugInsOf(spec).flatMap(({ what, plugIn }) => (plugIn.save === undefined ? [] : [{ what, plugIn }]));
    if (savers.length === 0) return undefined;
    return (saved) => {
      for (const { what, plugIn } of savers) guarded(what, () => plugIn.save?.(saved));
    };
  }

  /**
   * What plug-ins do with columns of a checkpoint that other versions of them wrote; undefined where the same wrote
   * them. Throws CHECKPOINT_FOREIGN where one cannot read those of another version, or another plug-in wrote them.
   */
  loaderOf(spec: ParameterSpec, record: ParameterRecord, checkpoint: string): ((saved: SavedColumns) => void) | undefined {
    const written = plugInsOf(record, checkpoint);
    const loaders = this.#plugInsOf(spec).flatMap(({ what, kind, plugIn }) => {
      const before = written.find((one) => one.kind === kind);
      if (before?.name !== plugIn.name)
        throw new WeighbridgeError(
          "CHECKPOINT_FOREIGN",
          `${checkpoint} has ${quote(spec.name)} as ${quote(before?.name ?? "none")} wrote it, not as ${what}`,
        );
      if (before.version === plugIn.version) return [];
      if (plugIn.load === undefined)
        throw new WeighbridgeError(
          "CHECKPOINT_FOREIGN",
          `${checkpoint} has ${quote(spec.name)} of version ${before.version}, which ${what}, version ${plugIn.version}, cannot load`,
        );
      return [{ what, plugIn, version: before.version }];
    });
    if (loaders.length === 0) return undefined;
    return (saved) => {
      for (const { what, plugIn, version } of loaders) guarded(what, () => plugIn.load?.(saved, version));
    };
  }

  #plugInsOf(
    spec: ParameterSpec,
  ): readonly { readonly what: string; readonly kind: LoadedPlugIn["kind"]; readonly plugIn: PsUpdater | PsRowType }[] {
    const updater = spec.optimizer.type === "custom" ? this.#findUpdater(spec) : undefined;
    const rowType = spec.kind === "table" ? this.rowTypeOf(spec) : undefined;
    return [
      ...(updater === undefined ? [] : [{ what: nameOf("updater", updater), kind: "updater" as const, plugIn: updater.plugIn }]),
      ...(rowType === undefined ? [] : [{ what: nameOf("row type", rowType), kind: "rowType" as const, plugIn: rowType.plugIn }]),
    ];
  }

  /** The users' plug-ins that a parameter is made with. */
  loadedFor(spec: ParameterSpec): readonly LoadedPlugIn[] {
    const updater = spec.optimizer.type === "custom" ? this.#findUpdater(spec) : undefined;
    const rowType = spec.kind === "table" ? this.rowTypeOf(spec) : undefined;
    return [...identities("updater", updater), ...identities("rowType", rowType)];
  }

  #findRowType(wanted: Wanted): Loaded<PsRowType> {
    const ours = tableRowTypeOf(wanted.name);
    const among = ours === undefined ? this.#rowTypes : new Map([[ours.name, { plugIn: ours, module: OURS, hash: "" }]]);
    return this.#find(among, "row type", wanted);
  }

  #findUpdater({ optimizer }: ParameterSpec): Loaded<PsUpdater> {
    return this.#find(this.#updaters, "updater", { name: optimizer.updater ?? "", version: optimizer.version });
  }

  #customUpdater(spec: ParameterSpec): ChosenUpdater {
    const found = this.#findUpdater(spec);
    const { plugIn: updater } = found;
    const what = nameOf("updater", found);
    const element = updatedElement(spec);
    if (!updater.dtypes.includes(element))
      throw badArgument(`${spec.name}: ${what} is for rows of ${updater.dtypes.join(", ")}, not of ${element}`);
    const settings = settingsOf(updater, spec.optimizer.settings ?? {}, `${spec.name}: ${what}`);
    return { updater, columns: columnsOf(updater, spec, what), settings, what, isOurs: false };
  }

  #find<P extends PlugInIdentity>(among: ReadonlyMap<string, Loaded<P>>, kind: string, { name, version }: Wanted): Loaded<P> {
    const loaded = among.get(name);
    if (loaded === undefined) {
      const there = [...among].map(([known, { module }]) => `${quote(known)} of ${module}`).join(", ") || "none of its own";
      const hint = "start every server with --functions and the module that exports it";
      throw new WeighbridgeError(
        "UNKNOWN_PLUG_IN",
        `this server has no ${kind} ${quote(name)}${didYouMean(name, [...among.keys()])}; it has ${there}: ${hint}`,
      );
    }
    if (version === undefined || loaded.plugIn.version === version) return loaded;
    const versions = `version ${loaded.plugIn.version} of the ${kind} ${quote(name)}, of ${loaded.module}, and no version ${version}`;
    throw new WeighbridgeError("UNKNOWN_PLUG_IN", `this server has ${versions}`);
  }
}

function identities(kind: LoadedPlugIn["kind"], loaded: Loaded<PlugInIdentity> | undefined): readonly LoadedPlugIn[] {
  if (loaded === undefined) return [];
  const { plugIn, module, hash } = loaded;
  return [{ kind, name: plugIn.name, version: plugIn.version, deterministic: plugIn.deterministic, hash, module }];
}

/** As errors say it. */
function nameOf(kind: string, { plugIn, module }: Loaded<PlugInIdentity>): string {
  return `${kind} ${quote(plugIn.name)} of ${module}`;
}

/** What `sum` and `assign` do is the row type's to say. */
function updaterOfRowType(rowType: PsRowType, optimizer: string): PsUpdater {
  const { name, version, deterministic, dtype, apply, decode = copyRows } = rowType;
  const update = optimizer === "assign" ? decode : apply;
  return psUpdater({
    name,
    version,
    deterministic,
    dtypes: [dtype],
    update: (rows, pushed) => update(rows, pushed),
  });
}

/** What rows are made of as an updater sees them. */
function updatedElement(spec: ParameterSpec): RowElement {
  return spec.kind === "table" ? elementOf(spec) : "f32";
}

/** Elements of a row as an updater sees it. */
function widthOf(spec: ParameterSpec): number {
  if (spec.kind === "table") return rowElements(spec);
  const shape = new TensorShape(spec.shape);
  return shape.hasRows ? shape.width : 1;
}

/** Throws HANDLER_FAILED, BAD_ARGUMENT. */
function columnsOf(updater: PsUpdater, spec: ParameterSpec, what: string): readonly PlacedColumn[] {
  const { isFloat } = ROW_ELEMENTS[updatedElement(spec)];
  let offset = 0;
  return Object.entries(guarded(what, () => updater.columns(widthOf(spec)))).map(([name, column]) => {
    if ("elements" in column) throw badArgument(`${what}: elements of the column ${quote(name)} is now called dim`);
    const { dim, start = 0 } = column;
    const isNamed = isColumnName(name) && !RESERVED_COLUMNS.includes(name);
    const isStart = isFloat ? Number.isFinite(start) : Number.isSafeInteger(start);
    if (!isNamed || !(Number.isSafeInteger(dim) && dim >= 1 && dim <= COLUMN_ELEMENTS_MAX) || !isStart)
      throw badArgument(`${what}: a column ${quote(name)} of dim ${showValue(dim)} that begins with ${showValue(start)}`);
    const placed = { name, elements: dim, start, offset };
    offset += dim;
    return placed;
  });
}

/** What every optimizer may have stands beside the settings of its updater. */
const BESIDE_SETTINGS: readonly string[] = ["learningRate", "schedule", "clipNorm", "nonFinite"];

function hintFor(name: string, known: readonly string[]): string {
  if (!BESIDE_SETTINGS.includes(name)) return didYouMean(name, known);
  return `; ${name} stands beside them: optimizer: { ...updater.with({ … }), ${name}: … }`;
}

/** Throws BAD_ARGUMENT for one that the updater does not have, or of another type. */
function settingsOf({ settings }: PsUpdater, given: UpdaterSettings, what: string): UpdaterSettings {
  for (const [name, value] of Object.entries(given)) {
    const known = settings[name];
    if (known === undefined)
      throw badArgument(
        `${what} has no setting ${quote(name)}; there are ${Object.keys(settings).join(", ") || "none"}${hintFor(name, Object.keys(settings))}`,
      );
    if (typeof known !== typeof value) throw badArgument(`${what}: ${name} is a ${typeof known}, not ${showValue(value)}`);
  }
  return { ...settings, ...given };
}

/** What a plug-in throws is HANDLER_FAILED. */
function guarded<T>(what: string, act: () => T): T {
  try {
    return act();
  } catch (thrown) {
    throw new WeighbridgeError("HANDLER_FAILED", `${what} threw: ${reasonOf(thrown)}`, { cause: thrown });
  }
}

function byName<P extends PlugInIdentity>(
  modules: readonly { readonly module: string; readonly hash: string; readonly plugIns: readonly P[] }[],
): ReadonlyMap<string, Loaded<P>> {
  const found = new Map<string, Loaded<P>>();
  for (const { module, hash, plugIns } of modules) {
    for (const plugIn of plugIns) {
      const other = found.get(plugIn.name);
      if (other !== undefined)
        throw new WeighbridgeError("BAD_CONFIG", `${quote(plugIn.name)} is exported twice, by ${other.module} and ${module}`);
      found.set(plugIn.name, { plugIn, module, hash });
    }
  }
  return found;
}

function quote(name: string): string {
  return JSON.stringify(name);
}
