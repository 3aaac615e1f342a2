// Lists the texts that are hard to read on their background, and the frames that a selector names and that are
// hard to see on theirs: less than 4.5 to 1, which WCAG 2 asks for texts. There have to be so many texts.
(least, frames) => {
	const rgb = (color) => color.match(/[\d.]+/g).map(Number);
	const luminance = (c) => {
		const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const behind = (node) => {
		for (; node; node = node.parentElement) {
			const c = rgb(getComputedStyle(node).backgroundColor);
			if ((c[3] ?? 1) > 0) return c;
		}
		return [255, 255, 255];
	};
	const poor = [];
	const look = (color, back, what) => {
		const [a, b] = [luminance(rgb(color)), luminance(back)];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) poor.push(ratio.toFixed(2) + ": " + what);
	};
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let seen = 0;
	while (texts.nextNode()) {
		const node = texts.currentNode.parentElement;
		if (!texts.currentNode.data.trim() || !node.checkVisibility() || node.closest(".visually-hidden, .emoji")) continue;
		seen++;
		look(getComputedStyle(node).color, behind(node), texts.currentNode.data.trim());
	}
	for (const b of frames ? document.querySelectorAll(frames) : [])
		look(getComputedStyle(b).borderColor, behind(b.parentElement), "the frame of " + b.innerText);
	if (seen < least) poor.push("only " + seen + " texts");
	return poor.join("\n");
}
