// Plots, in the colours of the page's theme.

/** Draws a chart into `graph`: each trace in the colours of its subject's look, if `isShown` says so. */
function plot(graph, { traces, layout }, looks, isShown) {
  const style = (selector) => getComputedStyle(document.querySelector(selector));
  const figure = style("figure");
  const [ink, rule, paper] = [figure.color, figure.borderTopColor, figure.backgroundColor];
  const inColours = (axis) => ({ ...axis, gridcolor: rule, linecolor: rule, tickcolor: rule });
  // The diagonal is nobody's, and has the colour of what is beside the figures.
  const painted = (trace) => {
    const look = looks[trace.meta?.look];
    const color = look ? look[theme.isDark ? "dark" : "light"] : style(".caption").color;
    return {
      ...trace, visible: isShown(trace), line: { ...trace.line, color },
      marker: { ...trace.marker, color, line: { ...trace.marker?.line, color } },
      error_y: trace.error_y && { ...trace.error_y, color },
    };
  };
  const { xaxis, yaxis, font } = layout;
  Plotly.react(graph, traces.map(painted), {
    ...layout, font: { ...font, color: ink }, xaxis: inColours(xaxis), yaxis: inColours(yaxis),
    height: graph.clientHeight, hoverlabel: { ...layout.hoverlabel, bgcolor: paper, font: { color: ink } },
  }, { responsive: true, displaylogo: false, displayModeBar: false });
}

/** Has a legend's buttons hide and show their subjects; `draw` is called after that. */
function toggles(buttons, hidden, draw) {
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const { name } = button.dataset;
      hidden.delete(name) || hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      draw();
    });
  }
}
