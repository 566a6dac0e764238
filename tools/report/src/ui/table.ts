/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table that sorts by a click on a heading, shows the first rows and more on demand, and opens a
 * row's details below it. Only rows that are shown have elements, so that a list of 100,000
 * holders costs no more than one of 50.
 */
import { append, Child, el, fill } from './dom.js';
import { count } from '../text/units.js';

export interface Column<Row> {
    title: string;
    /** What the heading says when pointed at. */
    hint?: string;
    cell(row: Row): Child;
    /** What to sort by; without it the heading is no button. */
    order?(row: Row): number | string;
    kind?: 'number' | 'wide';
}

export interface TableOptions<Row> {
    caption: string;
    columns: Column<Row>[];
    /** Index of the column to sort by first, descending for numbers. */
    sortBy: number;
    shown?: number;
    details?(row: Row): Node;
    detailsLabel?(row: Row): string;
    empty: string;
}

export class DataTable<Row> {
    readonly root = el('div', { class: 'table' });
    private rows: Row[] = [];
    private column: number;
    private descending = true;
    private shown: number;
    private open = new Set<Row>();

    constructor(private readonly options: TableOptions<Row>) {
        this.column = options.sortBy;
        this.shown = options.shown ?? 50;
        this.descending = this.numeric(this.column);
    }

    private numeric(column: number): boolean {
        return this.options.columns[column]?.kind === 'number';
    }

    set(rows: Row[]): void {
        this.rows = rows.slice();
        this.shown = this.options.shown ?? 50;
        this.open.clear();
        this.sort();
        this.draw();
    }

    private sort(): void {
        const order = this.options.columns[this.column]?.order;
        if (!order) {
            return;
        }
        const sign = this.descending ? -1 : 1;
        this.rows.sort((a, b) => {
            const first = order(a), second = order(b);
            return first < second ? -sign : first > second ? sign : 0;
        });
    }

    private sortOn(column: number): void {
        this.descending = this.column === column ? !this.descending : this.numeric(column);
        this.column = column;
        this.sort();
        this.draw();
        this.root.querySelectorAll<HTMLElement>('thead th')[column]
            ?.querySelector('button')?.focus();
    }

    private heading(column: Column<Row>, index: number): HTMLElement {
        const sorted = index === this.column ? this.descending ? 'descending' : 'ascending' : null;
        return el('th', { scope: 'col', class: column.kind, 'aria-sort': sorted,
                          title: column.hint },
            column.order
                ? el('button', { type: 'button', onclick: () => this.sortOn(index) }, column.title)
                : column.title);
    }

    private body(row: Row): HTMLElement[] {
        const { columns, details, detailsLabel } = this.options;
        const line = el('tr', {}, ...columns.map((column) =>
            el('td', { class: column.kind }, column.cell(row))));
        if (!details) {
            return [line];
        }
        const isOpen = this.open.has(row);
        const label = detailsLabel?.(row) ?? 'details';
        append(line, el('td', {}, el('button', {
            type: 'button', class: 'link', 'aria-expanded': String(isOpen), 'aria-label': label,
            onclick: () => this.toggle(row, line),
        }, isOpen ? 'less' : 'more')));
        return isOpen ? [line, this.detailsRow(row)] : [line];
    }

    private detailsRow(row: Row): HTMLElement {
        return el('tr', { class: 'details' },
            el('td', { colspan: this.options.columns.length + 1, class: 'wide' },
                this.options.details!(row)));
    }

    private toggle(row: Row, line: HTMLElement): void {
        const button = line.querySelector('button.link[aria-expanded]')!;
        if (this.open.delete(row)) {
            line.nextElementSibling?.remove();
            button.textContent = 'more';
        } else {
            this.open.add(row);
            line.after(this.detailsRow(row));
            button.textContent = 'less';
        }
        button.setAttribute('aria-expanded', String(this.open.has(row)));
    }

    private draw(): void {
        const { columns, caption, details, empty } = this.options;
        if (this.rows.length === 0) {
            fill(this.root, el('p', { class: 'nothing' }, empty));
            return;
        }
        const visible = this.rows.slice(0, this.shown);
        const table = el('table', { 'aria-label': caption },
            el('thead', {}, el('tr', {}, ...columns.map((column, i) => this.heading(column, i)),
                details ? el('th', { scope: 'col', 'aria-label': 'Details' }) : null)),
            el('tbody', {}, ...visible.flatMap((row) => this.body(row))));
        const rest = this.rows.length - visible.length;
        fill(this.root, el('div', { class: 'scroll', tabindex: 0, role: 'region',
                                    'aria-label': caption }, table),
            rest > 0 && el('div', { class: 'more' }, el('button', {
                type: 'button',
                onclick: () => { this.shown += Math.min(500, this.shown); this.draw(); },
            }, `Show more (${count(rest)} left)`)));
    }
}
