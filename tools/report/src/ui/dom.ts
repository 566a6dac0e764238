/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making elements. Text from a snapshot (names, paths, marks) reaches the page only as text nodes
 * and attribute values made here; nothing in the report parses HTML, so that a hostile name is
 * shown and never run.
 */

export type Child = Node | string | number | null | undefined | false;

type Handler = (event: never) => void;

/** Attributes: a function is an event handler (`onclick`), true is an empty attribute, and null,
 * undefined and false leave the attribute out. */
export type Attributes = Record<string, string | number | boolean | null | undefined | Handler>;

export function el<K extends keyof HTMLElementTagNameMap>(
    tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === 'function') {
            element.addEventListener(name.replace(/^on/, ''), value as EventListener);
        } else if (value === true) {
            element.setAttribute(name, '');
        } else if (value !== null && value !== undefined && value !== false) {
            element.setAttribute(name, String(value));
        }
    }
    append(element, ...children);
    return element;
}

export function append(parent: Node, ...children: Child[]): void {
    for (const child of children) {
        if (child === null || child === undefined || child === false) {
            continue;
        }
        parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
    }
}

/** Puts the children in the place of what the element had. */
export function fill(element: Element, ...children: Child[]): void {
    element.replaceChildren();
    append(element, ...children);
}

/** An element of the shell; its absence is a mistake of the build. */
export function byId(id: string): HTMLElement {
    const element = document.getElementById(id);
    if (!element) {
        throw new Error(`the report has no element #${id}`);
    }
    return element;
}

/** The value of a custom property of the page's style, for canvases. */
export function themeColour(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A group of radio buttons that looks like one control: one choice out of a few. */
export function choice<T extends string>(
    label: string, options: readonly (readonly [T, string])[], selected: T,
    changed: (value: T) => void): HTMLElement {
    const name = `choice-${choiceCount++}`;
    const buttons = options.map(([value, text]) =>
        el('label', {},
            el('input', {
                type: 'radio', name, value, checked: value === selected,
                onchange: () => changed(value),
            }),
            el('span', {}, text)));
    return el('fieldset', { class: 'choice', 'data-choice': label }, el('legend', {}, label),
        el('div', { class: 'choice-options' }, ...buttons));
}
let choiceCount = 0;

/** Calls back, at most once a frame, however often it is asked. */
export function oncePerFrame(call: () => void): () => void {
    let asked = false;
    return () => {
        if (!asked) {
            asked = true;
            requestAnimationFrame(() => {
                asked = false;
                call();
            });
        }
    };
}
