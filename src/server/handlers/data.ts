// data — serves arrays of any length by index, beside the parameters (contracts/data.ts, parameters/data-arrays.ts).

import { WeighbridgeError } from "../../base/errors.ts";
import { dataPull, dataPush } from "../../contracts/data.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const DATA_HANDLERS: readonly ServedFunction[] = [
  serve(dataPush, {
    handler: ({ parameters }, push) => {
      parameters.data.push(push);
      return {};
    },
  }),
  serve(dataPull, {
    handler: ({ parameters }, { indexes }) => {
      const found = Array.from(indexes, (index) => {
        const values = parameters.data.find(index);
        if (values === undefined) throw new WeighbridgeError("OUT_OF_RANGE", `nobody has pushed data under index ${index}`);
        return values;
      });
      const lengths = Uint32Array.from(found, ({ length }) => length);
      const values = new Float32Array(lengths.reduce((sum, length) => sum + length, 0));
      let at = 0;
      for (const part of found) {
        values.set(part, at);
        at += part.length;
      }
      return { lengths, values };
    },
  }),
];
