/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON reader for documents with large tables. It works on bytes, and an object that has
 * `columns` (names) before `rows` (arrays of cells) becomes a Table with one typed array a column:
 * a million records never exist as a million small arrays. Its other members are in `fields`. All
 * other values are what JSON.parse would make of them, except that objects have no prototype, so
 * that no key means anything.
 *
 * Errors name the byte and what was expected there. Depth is bounded; so nothing recurses deeper.
 */

export type Value = null | boolean | number | string | Value[] | Dictionary | Table;
export interface Dictionary { [key: string]: Value }

/** Cells by column. Numbers are in a Float64Array, null is NaN; a column with a cell that is
 * neither is in `other` instead. */
export class Table {
    readonly numbers = new Map<string, Float64Array>();
    readonly other = new Map<string, Value[]>();

    constructor(readonly columns: readonly string[], readonly length: number,
                readonly fields: Dictionary) {}

    /** A numeric column, or one filled with `missing` if the table lacks it. */
    column(name: string, missing = NaN): Float64Array {
        return this.numbers.get(name) ?? new Float64Array(this.length).fill(missing);
    }

    has(name: string): boolean {
        return this.numbers.has(name) || this.other.has(name);
    }

    values(name: string): Value[] {
        return this.other.get(name) ?? Array.from(this.numbers.get(name) ?? [],
            (cell) => Number.isNaN(cell) ? null : cell);
    }
}

export class JsonError extends Error {}

const DEPTH_MAX = 64;
const ROWS_FIRST = 1024;
const PROGRESS_ROWS = 65536;

const QUOTE = 0x22, COMMA = 0x2c, MINUS = 0x2d, ZERO = 0x30, NINE = 0x39, COLON = 0x3a;
const OPEN_BRACKET = 0x5b, BACKSLASH = 0x5c, CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b, CLOSE_BRACE = 0x7d;

/** One column while its table is being read. */
class ColumnWriter {
    numbers: Float64Array | null = new Float64Array(ROWS_FIRST);
    other: Value[] | null = null;

    /** The array for numbers with room for this row. */
    room(row: number): Float64Array | null {
        if (this.numbers && row >= this.numbers.length) {
            const larger = new Float64Array(this.numbers.length * 2);
            larger.set(this.numbers);
            this.numbers = larger;
        }
        return this.numbers;
    }

    put(row: number, cell: Value): void {
        if (this.numbers && (typeof cell === 'number' || cell === null)) {
            this.room(row)![row] = cell ?? NaN;
            return;
        }
        if (!this.other) {
            this.other = Array.from(this.numbers!.subarray(0, row),
                (number) => Number.isNaN(number) ? null : number);
            this.numbers = null;
        }
        this.other[row] = cell;
    }
}

class Reader {
    private at = 0;
    private readonly decoder = new TextDecoder('utf-8', { fatal: true });

    constructor(private readonly bytes: Uint8Array,
                private readonly progress: (done: number) => void) {}

    document(): Value {
        const value = this.value(0);
        this.skipSpace();
        if (this.at < this.bytes.length) {
            this.fail('the end of the document');
        }
        return value;
    }

    private fail(expected: string): never {
        const found = this.at >= this.bytes.length
            ? 'the file ends there'
            : `there is '${String.fromCharCode(this.bytes[this.at]!)}'`;
        throw new JsonError(`Not valid JSON: at byte ${this.at}, ${expected} was expected and ` +
            `${found}.`);
    }

    private skipSpace(): void {
        const bytes = this.bytes;
        let at = this.at;
        while (at < bytes.length) {
            const byte = bytes[at]!;
            if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) {
                break;
            }
            at++;
        }
        this.at = at;
    }

    private peek(): number {
        this.skipSpace();
        return this.at < this.bytes.length ? this.bytes[this.at]! : -1;
    }

    private expect(byte: number): void {
        if (this.peek() !== byte) {
            this.fail(`'${String.fromCharCode(byte)}'`);
        }
        this.at++;
    }

    /** After a member: true if another one follows, false at the end, which is consumed. */
    private more(end: number): boolean {
        const byte = this.peek();
        if (byte !== COMMA && byte !== end) {
            this.fail(`',' or '${String.fromCharCode(end)}'`);
        }
        this.at++;
        return byte === COMMA;
    }

    private value(depth: number): Value {
        if (depth > DEPTH_MAX) {
            throw new JsonError(`Nested deeper than ${DEPTH_MAX} at byte ${this.at}; ` +
                'no snapshot is.');
        }
        const byte = this.peek();
        switch (byte) {
        case OPEN_BRACE: return this.object(depth);
        case OPEN_BRACKET: return this.array(depth);
        case QUOTE: return this.string();
        case 0x74: return this.word('true', true);
        case 0x66: return this.word('false', false);
        case 0x6e: return this.word('null', null);
        default: return this.number();
        }
    }

    private word<T extends Value>(text: string, value: T): T {
        for (let i = 0; i < text.length; i++) {
            if (this.bytes[this.at + i] !== text.charCodeAt(i)) {
                this.fail('a value');
            }
        }
        this.at += text.length;
        return value;
    }

    /** Most numbers are integers below 2^53: read digit by digit, exactly. */
    private number(): number {
        const bytes = this.bytes;
        const start = this.at;
        let at = start;
        const negative = bytes[at] === MINUS;
        if (negative) {
            at++;
        }
        const first = at;
        let result = 0;
        let byte = bytes[at];
        while (byte !== undefined && byte >= ZERO && byte <= NINE) {
            result = result * 10 + (byte - ZERO);
            byte = bytes[++at];
        }
        if (at === first) {
            this.fail('a value');
        }
        this.at = at;
        if (byte === 0x2e || byte === 0x65 || byte === 0x45 || at - first > 15) {
            return this.longNumber(start);
        }
        if (bytes[first] === ZERO && at - first > 1) {
            this.at = first + 1;
            this.fail('no digit after a leading 0');
        }
        return negative ? -result : result;
    }

    private longNumber(start: number): number {
        let at = start;
        while (at < this.bytes.length && /[-+.0-9eE]/.test(String.fromCharCode(this.bytes[at]!))) {
            at++;
        }
        const text = String.fromCharCode(...this.bytes.subarray(start, Math.min(at, start + 400)));
        if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/.test(text)) {
            this.at = start;
            this.fail('a number');
        }
        this.at = at;
        return Number(text);
    }

    private string(): string {
        const bytes = this.bytes;
        if (bytes[this.at] !== QUOTE) {
            this.fail('a string');
        }
        const start = this.at + 1;
        let at = start;
        let plain = true;
        while (at < bytes.length && bytes[at] !== QUOTE) {
            if (bytes[at] === BACKSLASH) {
                plain = false;
                at++;
            }
            at++;
        }
        if (at >= bytes.length) {
            this.at = bytes.length;
            this.fail('the end of a string');
        }
        this.at = at + 1;
        try {
            const text = this.decoder.decode(bytes.subarray(start, at));
            return plain ? text : JSON.parse(`"${text}"`) as string;
        } catch {
            this.at = start;
            return this.fail('a string in UTF-8 with valid escapes');
        }
    }

    private array(depth: number): Value[] {
        this.at++;
        const result: Value[] = [];
        if (this.peek() === CLOSE_BRACKET) {
            this.at++;
            return result;
        }
        do {
            result.push(this.value(depth + 1));
        } while (this.more(CLOSE_BRACKET));
        return result;
    }

    private object(depth: number): Dictionary | Table {
        this.at++;
        const result = Object.create(null) as Dictionary;
        if (this.peek() === CLOSE_BRACE) {
            this.at++;
            return result;
        }
        let table: Table | null = null;
        do {
            this.skipSpace();
            const key = this.string();
            this.expect(COLON);
            const columns = result['columns'];
            if (key === 'rows' && Array.isArray(columns) && this.peek() === OPEN_BRACKET) {
                table = this.table(columns.map(String), result, depth);
            } else {
                result[key] = this.value(depth + 1);
            }
        } while (this.more(CLOSE_BRACE));
        return table ?? result;
    }

    private table(columns: string[], fields: Dictionary, depth: number): Table {
        const writers = columns.map(() => new ColumnWriter());
        let row = 0;
        this.at++;
        if (this.peek() === CLOSE_BRACKET) {
            this.at++;
        } else {
            let room: (Float64Array | null)[] = [];
            do {
                // All columns grow at the same rows, if they still hold numbers.
                if (row >= (room.find((column) => column)?.length ?? 0)) {
                    room = writers.map((writer) => writer.room(row));
                }
                this.skipSpace();
                if (columns.length === 0 || !this.fastRow(room, row)) {
                    this.row(writers, row, depth);
                    room = writers.map((writer) => writer.room(row));
                }
                row++;
                if (row % PROGRESS_ROWS === 0) {
                    this.progress(this.at);
                }
            } while (this.more(CLOSE_BRACKET));
        }
        const table = new Table(columns, row, fields);
        columns.forEach((name, index) => {
            const writer = writers[index]!;
            if (writer.numbers) {
                table.numbers.set(name, writer.numbers.slice(0, row));
            } else {
                table.other.set(name, writer.other!);
            }
        });
        return table;
    }

    /** A row of nothing but short integers, as nearly all are, or null: then nothing was read. The
     * same as row() in a third of the time. */
    private fastRow(columns: readonly (Float64Array | null)[], row: number): boolean {
        const bytes = this.bytes;
        let at = this.at;
        if (bytes[at++] !== OPEN_BRACKET) {
            return false;
        }
        for (let index = 0; index < columns.length; index++) {
            if (bytes[at] === 0x20) {
                at++;
            }
            const negative = bytes[at] === MINUS;
            const first = negative ? ++at : at;
            let value = 0;
            let byte = bytes[at]!;
            while (byte >= ZERO && byte <= NINE) {
                value = value * 10 + (byte - ZERO);
                byte = bytes[++at]!;
            }
            const digits = at - first;
            const numbers = columns[index];
            if (!numbers || digits === 0 || digits > 15 || (bytes[first] === ZERO && digits > 1) ||
                byte !== (index + 1 < columns.length ? COMMA : CLOSE_BRACKET)) {
                return false;
            }
            numbers[row] = negative ? -value : value;
            at++;
        }
        this.at = at;
        return true;
    }

    private row(writers: ColumnWriter[], row: number, depth: number): void {
        this.expect(OPEN_BRACKET);
        for (let index = 0; index < writers.length; index++) {
            const writer = writers[index]!;
            const byte = this.peek();
            const numbers = (byte >= ZERO && byte <= NINE) || byte === MINUS
                ? writer.room(row) : null;
            if (numbers) {
                numbers[row] = this.number();
            } else {
                writer.put(row, this.value(depth + 2));
            }
            if (index + 1 < writers.length) {
                this.expect(COMMA);
            }
        }
        if (this.peek() !== CLOSE_BRACKET) {
            this.fail(`the end of a row of ${writers.length} cells`);
        }
        this.at++;
    }
}

/** Reads a document. `progress` is told now and then how many bytes are read. */
export function readJson(bytes: Uint8Array, progress: (done: number) => void = () => {}): Value {
    return new Reader(bytes, progress).document();
}
