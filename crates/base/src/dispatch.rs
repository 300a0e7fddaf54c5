/// Defines a macro `$each!(value, inner => expression)` for an enum, which evaluates the expression with `inner` bound to the content of
/// the value's variant, whichever variant that is. The first argument must be a literal `$`, which the definition of the new macro
/// requires.
#[macro_export]
macro_rules! variants {
    ($d:tt $each:ident: $Enum:ident { $($Variant:ident),+ $(,)? }) => {
        macro_rules! $each {
            ($d value:expr, $d inner:ident => $d body:expr) => {
                match $d value { $($Enum::$Variant($d inner) => $d body),+ }
            };
        }
    };
}

/// Implements methods of an enum by calls of the method of the same name on the content of the variant. Requires a macro defined by
/// [`variants!`](crate::variants).
///
/// ```
/// use catnip_base::{dispatch, variants};
///
/// trait Area {
///     fn area(&self) -> u32;
///     fn grow(&mut self, by: u32);
/// }
/// # struct Square(u32);
/// # impl Area for Square { fn area(&self) -> u32 { self.0 * self.0 } fn grow(&mut self, by: u32) { self.0 += by; } }
/// # struct Strip(u32);
/// # impl Area for Strip { fn area(&self) -> u32 { self.0 } fn grow(&mut self, by: u32) { self.0 += by; } }
/// enum Shape {
///     Square(Square),
///     Strip(Strip),
/// }
/// variants!($ each: Shape { Square, Strip });
/// impl Area for Shape {
///     dispatch! { each:
///         fn area(&self) -> u32;
///         fn grow(&mut self, by: u32);
///     }
/// }
/// let mut shape = Shape::Square(Square(2));
/// shape.grow(1);
/// assert_eq!(shape.area(), 9);
/// ```
#[macro_export]
macro_rules! dispatch {
    ($each:ident: $($(#[$attribute:meta])* fn $method:ident($($signature:tt)*) $(-> $Output:ty)?;)+) => {
        $($crate::dispatch! { @ $each [$(#[$attribute])*] $method ($($signature)*) [$(-> $Output)?] })+
    };
    (@ $each:ident [$($attribute:tt)*] $method:ident (&mut $this:ident $(, $argument:ident: $Argument:ty)* $(,)?) [$($output:tt)*]) => {
        $($attribute)* fn $method(&mut $this $(, $argument: $Argument)*) $($output)* {
            $each!($this, inner => inner.$method($($argument),*))
        }
    };
    (@ $each:ident [$($attribute:tt)*] $method:ident (&$this:ident $(, $argument:ident: $Argument:ty)* $(,)?) [$($output:tt)*]) => {
        $($attribute)* fn $method(&$this $(, $argument: $Argument)*) $($output)* {
            $each!($this, inner => inner.$method($($argument),*))
        }
    };
}
