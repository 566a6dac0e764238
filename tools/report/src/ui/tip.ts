/* SPDX-License-Identifier: Apache-2.0 */
/* The small box beside the pointer. */
import { byId, Child, fill } from './dom.js';

const DISTANCE = 14;

export function showTip(x: number, y: number, ...content: Child[]): void {
    const tip = byId('tip');
    fill(tip, ...content);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = x + DISTANCE + width > innerWidth ? x - DISTANCE - width : x + DISTANCE;
    const top = y + DISTANCE + height > innerHeight ? y - DISTANCE - height : y + DISTANCE;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
}

export function hideTip(): void {
    byId('tip').hidden = true;
}
