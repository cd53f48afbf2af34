// row-encode — encodes pulled rows whose type has an encoder (store/row-types/ps-row-type.ts): reads them into scratch
// memory, and encodes them from there.

import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { elementsAt, ROW_ELEMENTS, type RowSpans } from "../../kernel/row-element.ts";
import type { TableSpec } from "../../store/parameter-spec.ts";
import { elementOf, rowElements } from "../../store/row-types/row-type-spec.ts";
import type { ParameterHost } from "./parameter-host.ts";

/** Calls `read` to write rows, and writes their encoded form at `out`. Throws HANDLER_FAILED, ARENA_FULL. */
export type RowEncode = (out: number, rowCount: number, read: (rows: number) => void) => void;

/** Undefined for rows that are pulled as they are. */
export function rowEncode({ arena, plugIns }: ParameterHost, spec: TableSpec): RowEncode | undefined {
  const loaded = plugIns.rowTypeOf(spec);
  if (loaded?.plugIn.encode === undefined) return undefined;
  const { plugIn, module } = loaded;
  const [element, width] = [elementOf(spec), rowElements(spec)];
  const { bytes } = ROW_ELEMENTS[element];
  const elements = elementsAt(element, arena.memory.buffer, 0, arena.bytes.length / bytes);
  const spansAt = (address: number, count: number): RowSpans => ({
    ...{ count, width, elements },
    starts: Uint32Array.from({ length: count }, (_, i) => address / bytes + i * width),
  });
  return (out, count, read) => {
    const byteCount = Math.max(1, count * width * bytes);
    const rows = arena.allocate(byteCount);
    try {
      read(rows);
      plugIn.encode?.(spansAt(rows, count), spansAt(out, count));
    } catch (thrown) {
      if (isWeighbridgeError(thrown)) throw thrown;
      const what = `row type ${JSON.stringify(plugIn.name)} of ${module}`;
      throw new WeighbridgeError("HANDLER_FAILED", `${what} cannot encode rows of ${spec.name}: ${reasonOf(thrown)}`, { cause: thrown });
    } finally {
      arena.release(rows, byteCount);
    }
  };
}
