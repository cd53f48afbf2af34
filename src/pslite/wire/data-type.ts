// data-type — ps-lite's numbers for the types of values, and ours.

/**
 * ps-lite: CHAR INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FLOAT DOUBLE OTHER; the index is its number, the
 * entry ours.
 */
const DTYPES: readonly number[] = [2, 2, 4, 6, 8, 3, 5, 7, 9, 0, 1, 3];
/** The index is our number (wire/kv-message.ts), the entry ps-lite's. */
const PS_TYPES: readonly number[] = [9, 10, 1, 5, 2, 6, 3, 7, 4, 8];

export const PsType = { INT32: 3, UINT32: 7, UINT64: 8 } as const;

/** Our number of a type; -1 if there is no such type. */
export function dtypeOfPsType(type: number): number {
  return DTYPES[type] ?? -1;
}

export function psTypeOfDtype(dtype: number): number {
  return PS_TYPES[dtype] ?? 11;
}
